// TrustedNetwork: the setting for networks of UCX and libfabric listeners. These accept bytes from
// every peer without a ticket, and over tcp such bytes can write anywhere in the process
// (docs/decisions/0403). A daemon therefore starts with such a listener only if its settings
// allow it, and logs a warning.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "ros2s/config/config.h"
#include "ros2s/daemon/listen_text.h"

namespace ros2s::daemon {

// The setting `trusted_network`: no, yes, or loopback.
[[nodiscard]] config::Field describe_trusted_network(std::string& value);

// Checks that the settings allow these listeners. `places` without an address are servers to
// connect to, because the library also listens on the connecting side. `where` names the settings.
// Errors: invalid, with a sentence.
[[nodiscard]] Result<> check_trust(std::string_view trusted_network,
                                   const std::vector<Listen>& places, std::string_view devices,
                                   std::string_view where, Report& report);

// For the log at start: one line for each listener whose network is trusted.
[[nodiscard]] std::vector<std::string> trust_warnings(const std::vector<Listen>& places);

// Exposed for tests: true for an address that every process of this machine can reach: loopback, or
// all interfaces.
[[nodiscard]] bool is_loopback_or_any(std::string_view address);

}  // namespace ros2s::daemon
