// The command line: which command with which options, or why not.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "commands.h"

namespace ros2s::cli {

struct Arguments {
    bool json = false;
    // What the command's pools are named by, among local paths: its arguments as they were written.
    std::vector<std::string> places;
    // Starts the chosen command.
    std::function<Task<Result<>>(Workplace)> command;
};

// Nothing where the program is to end at once with `status`: help and version were printed, or the
// complaint about the arguments was.
[[nodiscard]] std::optional<Arguments> parse_arguments(int count, char** values, int& status);

}  // namespace ros2s::cli
