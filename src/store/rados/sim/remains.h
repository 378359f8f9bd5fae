// What a sweep should have removed from a container of a simulated cluster, for tests.
#pragma once
#include <string>
#include <vector>

#include "ros2s/rados/sim/sim_rados.h"

namespace ros2s::rados {

// A sentence for each: locks, garbage, data that nothing names and names without data, decisions.
// Replies are not looked at.
[[nodiscard]] std::vector<std::string> remains_in(SimRados& cluster);

// The number of clients that have replies.
[[nodiscard]] size_t replies_in(SimRados& cluster);

}  // namespace ros2s::rados
