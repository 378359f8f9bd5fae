// What this machine lacks for pools and mounts.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "finding.h"
#include "ros2s/runtime/reactor.h"

namespace ros2s::cli {

// `reactor` is the one that this program runs on.
[[nodiscard]] std::vector<Finding> look_at_machine(Reactor& reactor);
// For pools in it.
[[nodiscard]] std::vector<Finding> look_at_directory(const std::string& directory);
// The sentence on a file or directory that lies in memory; none: it does not, or is not there.
[[nodiscard]] std::optional<std::string> in_memory(const std::string& path);

}  // namespace ros2s::cli
