// The control planes of the daemons of a pool directory, for commands of this program.
#pragma once
#include "ros2s/api/service_paths.h"
#include "ros2s/control/control_client.h"
#include "services.h"

namespace ros2s::cli {

enum class Daemon : uint8_t { engine, dpu };

// Uses the client's certificate of the directory.
[[nodiscard]] control::ClientOptions control_of(const api::ServicePaths& paths, Daemon daemon);

// Asks each running daemon for its number of sessions. If one does not answer, its `trouble` says
// why. Waits some seconds for a hanging one.
[[nodiscard]] Task<Result<>> ask_services(CommandContext context, std::string directory,
                                          std::vector<Service>& services);

}  // namespace ros2s::cli
