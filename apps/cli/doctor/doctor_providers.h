// Which providers of the fabric this machine has, and by which library.
#pragma once
#include <vector>

#include "finding.h"

namespace ros2s::cli {

// Loads UCX, as whoever opens a provider of it does.
[[nodiscard]] std::vector<Finding> look_at_providers();

}  // namespace ros2s::cli
