// Memory for coroutine frames: free lists by size, one set per thread, so that the steady state
// allocates nothing. A frame freed on another thread than its own joins that thread's lists; each
// list keeps at most 256 KiB, so that a thread which only frees does not hoard.
// Under a sanitizer every frame is a plain allocation, so that use after free is seen.
#pragma once
#include <cstddef>

namespace ros2s {

[[nodiscard]] void* allocate_frame(size_t size);
void free_frame(void* frame, size_t size) noexcept;
// What the calling thread's lists hold now.
[[nodiscard]] size_t pooled_frame_bytes() noexcept;

}  // namespace ros2s
