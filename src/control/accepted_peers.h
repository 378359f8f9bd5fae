// Where connections to the control plane come from, for the audit. gRPC tells of a failed handshake
// without the peer's address, but shows a socket mutator each connection that it accepts, and then
// makes its TLS state on the same thread. So the address goes into that state (OpenSSL's ex_data),
// and the audit hears of it when the state goes: for a failed handshake right after gRPC has told
// of it, on the same thread.
//
// Process-wide, as gRPC's log is. Any thread.
#pragma once
#include <grpcpp/grpcpp.h>

namespace ros2s::control {

// Has gRPC show the connections that the server accepts, and Audit hear of their ends.
void see_connections(grpc::ServerBuilder& builder);

}  // namespace ros2s::control
