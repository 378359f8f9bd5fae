// Other programs: finding them beside this one or on the PATH, and running them.
#pragma once
#include <string>
#include <vector>

#include "ros2s/base/result.h"

namespace ros2s::cli {

// The path of a program that is installed with this one: in the same directory, else as execvp
// finds it.
[[nodiscard]] std::string sibling_program(const std::string& name);
// The directory of this program, where files installed with it are found. Empty: unknown.
[[nodiscard]] std::string own_directory();

// The form that execve(2) needs. Valid as long as `texts`.
[[nodiscard]] std::vector<char*> pointers_to(std::vector<std::string>& texts);

struct ProgramSaid {
    int status = 0;      // as a shell reports it
    std::string output;  // the first KiBs of standard output and standard error
    std::string errors;  // empty if they are shown
};
enum class ProgramErrors : uint8_t { shown, kept };
// Runs it until it ends. Blocks. Errors: those of memfd_create() and posix_spawnp().
[[nodiscard]] Result<ProgramSaid> run_program(std::vector<std::string> arguments,
                                              ProgramErrors errors = ProgramErrors::shown);

}  // namespace ros2s::cli
