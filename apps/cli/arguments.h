// The command line: the chosen command and its options, or what is wrong.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "commands.h"

namespace ros2s::cli {

struct Arguments {
    bool json = false;
    // The arguments that name the command's pools, as they were written; local paths may be among
    // them.
    std::vector<std::string> locations;
    // The pools that the command uses: root's command acts as their user (api/acting_user.h). A
    // command that makes something has none.
    std::vector<std::string> used_pools;
    int failed_status = 1;  // of the process if the command fails
    // Starts the chosen command.
    std::function<Task<Result<>>(CommandContext)> command;
};

// Empty if the program ends at once with `status`: it has printed help, the version, or what is
// wrong with the arguments.
[[nodiscard]] std::optional<Arguments> parse_arguments(int count, char** values, int& status);

}  // namespace ros2s::cli
