// Errors on their way through gRPC: each Code has a name for the wire and the gRPC status that
// generic clients act on; code, errno and detail come back exactly (status.proto).
//
// Plain functions; any thread.
#pragma once
#include <grpcpp/support/status.h>

#include <string>

#include "ros2s/base/result.h"

namespace ros2s::control {

// `sentence` is for people; where it is empty, the error is described.
[[nodiscard]] grpc::Status to_status(const Error& error, const std::string& sentence);

// The way back. A status without our details (gRPC's own, a proxy's) becomes the nearest Code; the
// report gets the sentence.
[[nodiscard]] Error to_error(const grpc::Status& status, Report& report);

}  // namespace ros2s::control
