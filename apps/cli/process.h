// Other programs: found beside this one or on the PATH, and run.
#pragma once
#include <string>
#include <vector>

#include "ros2s/base/result.h"

namespace ros2s::cli {

// The path of a program that comes with this one: beside it, else as execvp finds it.
[[nodiscard]] std::string sibling_program(const std::string& name);
// Runs it to its end; its exit status. Blocks. Errors: those of posix_spawnp.
[[nodiscard]] Result<int> run_program(const std::vector<std::string>& arguments);

}  // namespace ros2s::cli
