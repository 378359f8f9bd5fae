// A futex of this process: a thread sleeps until a word changes.
#pragma once
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <optional>

#include "ros2s/runtime/time.h"

namespace ros2s {

// Sleeps while the word has this value, for at most `limit`. May return early.
inline void futex_wait(std::atomic<uint32_t>& word, uint32_t value,
                       std::optional<Duration> limit = {}) noexcept {
    timespec spec{};
    if (limit) spec = to_timespec(WallTime(*limit));
    syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, limit ? &spec : nullptr, nullptr, 0);
}

inline void futex_wake_one(std::atomic<uint32_t>& word) noexcept {
    syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

}  // namespace ros2s
