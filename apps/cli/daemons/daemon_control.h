// The control planes of the daemons of a pool directory, for commands of this program.
#pragma once
#include "ros2s/api/service_places.h"
#include "ros2s/control/control_client.h"
#include "services.h"

namespace ros2s::cli {

enum class Daemon : uint8_t { engine, dpu };

// With the client's certificate that lies in the directory.
[[nodiscard]] control::ClientOptions control_of(const api::ServicePlaces& places, Daemon daemon);

// Asks each that runs how many sessions it has; why one does not tell, its `trouble` says. Waits
// for a hanging one, some seconds.
[[nodiscard]] Task<Result<>> ask_services(Workplace work, std::string directory,
                                          std::vector<Service>& services);

}  // namespace ros2s::cli
