// Checks for what this machine lacks for pools and mounts.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "finding.h"
#include "ros2s/runtime/reactor.h"

namespace ros2s::cli {

// `reactor` is the one that this program runs on.
[[nodiscard]] std::vector<Finding> look_at_machine(Reactor& reactor);
// For pools in this directory.
[[nodiscard]] std::vector<Finding> look_at_directory(const std::string& directory);
// A sentence if the file or directory is in memory. Empty if it is not, or does not exist.
[[nodiscard]] std::optional<std::string> in_memory(const std::string& path);

}  // namespace ros2s::cli
