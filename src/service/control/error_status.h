// Errors over gRPC: each Code has a name on the wire, and the gRPC status for generic clients.
// Code, errno and detail arrive unchanged (status.proto).
//
// Plain functions; any thread.
#pragma once
#include <grpcpp/support/status.h>

#include <string>

#include "ros2s/base/result.h"

namespace ros2s::control {

// `sentence` is for people; if it is empty, the error is described.
[[nodiscard]] grpc::Status to_status(const Error& error, const std::string& sentence);

// The reverse. A status without our details (gRPC's own, a proxy's) becomes the nearest Code; the
// report gets the sentence.
[[nodiscard]] Error to_error(const grpc::Status& status, Report& report);

}  // namespace ros2s::control
