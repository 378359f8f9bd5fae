// Locks as struct flock has them (fcntl(2)), with l_whence SEEK_SET.
#pragma once
#include <fcntl.h>

#include <algorithm>
#include <cstdint>
#include <optional>

#include "ros2s/object/vocabulary.h"

namespace ros2s::fs {

// l_start and l_len are not negative.
[[nodiscard]] inline object::Lock to_lock(const struct flock& from, uint64_t owner) {
    object::Lock lock{.mode = from.l_type == F_UNLCK   ? object::LockMode::none
                              : from.l_type == F_WRLCK ? object::LockMode::exclusive
                                                       : object::LockMode::shared,
                      .first = static_cast<uint64_t>(from.l_start),
                      .owner = owner,
                      .pid = static_cast<uint32_t>(from.l_pid)};
    if (from.l_len > 0) lock.last = lock.first + static_cast<uint64_t>(from.l_len) - 1;
    return lock;
}

// Without a lock: F_UNLCK.
[[nodiscard]] inline struct flock to_flock(const std::optional<object::Lock>& lock) {
    constexpr uint64_t end = INT64_MAX;
    struct flock to{};
    to.l_type = F_UNLCK;
    if (!lock) return to;
    to.l_type = lock->mode == object::LockMode::exclusive ? F_WRLCK : F_RDLCK;
    to.l_whence = SEEK_SET;
    to.l_start = static_cast<off_t>(std::min(lock->first, end));
    to.l_len = lock->last >= end ? 0 : static_cast<off_t>(lock->last - lock->first + 1);
    to.l_pid = static_cast<pid_t>(lock->pid);
    return to;
}

}  // namespace ros2s::fs
