// The control planes of the daemons of a pool directory, for commands of this program.
#pragma once
#include <string>
#include <vector>

#include "commands.h"
#include "services.h"

namespace ros2s::cli {

// Requests the number of sessions from each running daemon. If one does not answer, its `trouble`
// is the reason. Waits some seconds for a hanging one.
[[nodiscard]] Task<Result<>> ask_services(CommandContext context, std::string directory,
                                          std::vector<Service>& services);

}  // namespace ros2s::cli
