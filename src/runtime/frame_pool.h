// Memory for coroutine frames: free lists by size, one set per thread, so that the steady state
// allocates nothing. A frame freed on another thread than its own joins that thread's lists.
// Under a sanitizer every frame is a plain allocation, so that use after free is seen.
#pragma once
#include <cstddef>

namespace ros2s {

[[nodiscard]] void* allocate_frame(size_t size);
void free_frame(void* frame, size_t size) noexcept;

}  // namespace ros2s
