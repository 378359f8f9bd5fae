// What gRPC takes of the process before it has done anything. Uses no gRPC.
#pragma once
#include <cstddef>
#include <cstdint>

#include "ros2s/base/result.h"

namespace ros2s::control {

// The threads that it may start.
[[nodiscard]] size_t grpc_threads() noexcept;

// Under ulimit -v: that address space is left for them, for the rest of a client or server, and
// `beside`. Errors: those of check_address_space().
[[nodiscard]] Result<> check_grpc_space(uint64_t beside, Report& report);

}  // namespace ros2s::control
