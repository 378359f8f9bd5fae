// Converts addresses to gRPC's form. Ours are "HOST:PORT", "[IPv6]:PORT" and "unix:PATH". gRPC
// reads the last as a URI, in which a space or '#' ends a path and '%41' is an 'A'.
#pragma once
#include <string>

namespace ros2s::control {

[[nodiscard]] std::string grpc_address(const std::string& address);

}  // namespace ros2s::control
