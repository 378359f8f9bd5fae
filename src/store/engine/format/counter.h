// The limit of a pool's numbers that only increase: epochs, groups, checkpoints, generations. No
// pool reaches it. A structure with a greater one is corrupt, so that they never wrap around.
#pragma once
#include <cstdint>

namespace ros2s::engine {

inline constexpr uint64_t counter_max = uint64_t{1} << 62;

}  // namespace ros2s::engine
