// The control planes of the daemons of a pool directory, for commands of this program.
#pragma once
#include <string>
#include <vector>

#include "commands.h"
#include "services.h"

namespace ros2s::cli {

// Asks each running daemon for its number of sessions. If one does not answer, its `trouble` says
// why. Waits some seconds for a hanging one.
[[nodiscard]] Task<Result<>> ask_services(CommandContext context, std::string directory,
                                          std::vector<Service>& services);

}  // namespace ros2s::cli
