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

// As execve(2) wants them, as long as `texts` stays.
[[nodiscard]] std::vector<char*> pointers_to(std::vector<std::string>& texts);

struct ProgramSaid {
    int status = 0;      // as a shell counts it
    std::string output;  // the first KiBs of both
    std::string errors;  // empty where they are shown
};
enum class ProgramErrors : uint8_t { shown, kept };
// Runs it to its end. Blocks. Errors: those of memfd_create() and posix_spawnp().
[[nodiscard]] Result<ProgramSaid> run_program(std::vector<std::string> arguments,
                                              ProgramErrors errors = ProgramErrors::shown);

}  // namespace ros2s::cli
