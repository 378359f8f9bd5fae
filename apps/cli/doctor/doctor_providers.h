// The fabric's providers on this machine, and the library of each.
#pragma once
#include <vector>

#include "finding.h"

namespace ros2s::cli {

// Loads UCX, as opening one of its providers does.
[[nodiscard]] std::vector<Finding> look_at_providers();

}  // namespace ros2s::cli
