// Other programs: found beside this one or on the PATH, and run.
#pragma once
#include <string>
#include <vector>

#include "ros2s/base/result.h"

namespace ros2s::cli {

// The path of a program that comes with this one: beside it, else as execvp finds it.
[[nodiscard]] std::string sibling_program(const std::string& name);
// Where files that come with this program are found: its directory. Empty: not to be told.
[[nodiscard]] std::string own_directory();
// Runs it to its end; its exit status. Its standard output goes to the file `output` where one is
// named. Blocks. Errors: those of posix_spawnp.
[[nodiscard]] Result<int> run_program(const std::vector<std::string>& arguments,
                                      const std::string& output = {});

struct ProgramSaid {
    int status = 0;
    std::string output;  // the first KiBs of both
    std::string errors;
};
// The same; what it and its children wrote until all of them have ended or let go of it. Blocks.
// Errors: those of pipe2() and posix_spawnp().
[[nodiscard]] Result<ProgramSaid> hear_program(const std::vector<std::string>& arguments);

}  // namespace ros2s::cli
