// Whether the control plane could listen on an address, asked before gRPC, which says why not in
// words of its own alone.
#pragma once
#include <string>

#include "ros2s/base/result.h"

namespace ros2s::control {

// `address` as in ControlOptions::listen. Takes it for a moment; a socket file stays as it is. May
// wait for a name server. Errors, each with a sentence: invalid (no such address), busy (somebody
// listens there), denied, not_found (no such name or directory), io.
[[nodiscard]] Result<> check_listening(const std::string& address, Report& report);

}  // namespace ros2s::control
