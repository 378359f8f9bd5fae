// The number of coroutine frames, and of messages that have such memory, that the calling thread
// has taken from its lists (frame_pool.h). For tests. 0 under a sanitizer.
#pragma once
#include <cstdint>

namespace ros2s {

[[nodiscard]] uint64_t frames_taken() noexcept;

}  // namespace ros2s
