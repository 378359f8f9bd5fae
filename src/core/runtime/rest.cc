#include "ros2s/runtime/rest.h"

#include <malloc.h>

namespace ros2s {

void give_free_memory_back() noexcept { ::malloc_trim(0); }

}  // namespace ros2s
