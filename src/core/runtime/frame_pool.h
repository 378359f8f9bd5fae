// Memory for coroutine frames: free lists by size, one set per thread. The steady state allocates
// nothing. A frame that is freed on another thread joins that thread's lists. They keep 4 MiB,
// and 256 KiB of each size, so a thread that only frees does not accumulate memory. Under a
// sanitizer every frame is a plain allocation, so that use after free is detected.
#pragma once
#include <cstddef>

namespace ros2s {

[[nodiscard]] void* allocate_frame(size_t size);
void free_frame(void* frame, size_t size) noexcept;
// The bytes in the calling thread's lists.
[[nodiscard]] size_t pooled_frame_bytes() noexcept;

}  // namespace ros2s
