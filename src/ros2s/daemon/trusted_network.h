// TrustedNetwork: what the settings say about the networks of UCX's and libfabric's listeners.
// These take bytes from whoever reaches them, without a ticket, and over tcp such bytes write
// anywhere in the process (docs/decisions/0403, 0536). So a daemon starts with one only where its
// settings say who that may be, and its log says so.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "ros2s/config/config.h"
#include "ros2s/daemon/places.h"

namespace ros2s::daemon {

// The setting `trusted_network`: no, yes, or loopback.
[[nodiscard]] config::Field describe_trusted_network(std::string& value);

// Whether the settings allow these. `places` without an address are those of servers that are
// connected to: the library of who connects listens, too. `where` names the settings. Errors:
// invalid, with a sentence.
[[nodiscard]] Result<> check_trust(std::string_view trusted_network,
                                   const std::vector<Listen>& places, std::string_view devices,
                                   std::string_view where, Report& report);

// For the log, at start: one line for each that trusts its network.
[[nodiscard]] std::vector<std::string> trust_warnings(const std::vector<Listen>& places);

// Exposed for tests: an address that every process of this machine reaches whatever its network is:
// of loopback, or of all interfaces.
[[nodiscard]] bool is_loopback_or_any(std::string_view address);

}  // namespace ros2s::daemon
