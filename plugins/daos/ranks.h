// Lists of ranks, which the program frees with d_rank_list_free().
#pragma once
#include <cstdint>

#include "daos_types.h"

namespace ros2s::daos {

// The ranks 0 to count - 1. Null: no memory.
[[nodiscard]] d_rank_list_t* make_rank_list(uint32_t count);

}  // namespace ros2s::daos
