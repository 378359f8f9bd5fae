// What this machine lacks for pools and mounts.
#pragma once
#include <string>
#include <vector>

#include "finding.h"
#include "ros2s/runtime/reactor.h"

namespace ros2s::cli {

// `reactor` is the one that this program runs on.
[[nodiscard]] std::vector<Finding> look_at_machine(Reactor& reactor);
// For pools in it.
[[nodiscard]] std::vector<Finding> look_at_directory(const std::string& directory);

}  // namespace ros2s::cli
