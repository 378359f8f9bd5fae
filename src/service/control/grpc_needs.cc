#include "ros2s/control/grpc_needs.h"

#include <unistd.h>

#include <algorithm>

#include "ros2s/runtime/process_limits.h"

namespace ros2s::control {

size_t grpc_threads() noexcept {
    const long cores = ::sysconf(_SC_NPROCESSORS_CONF);
    // Executors, timers and their manager; those of calls; those of the event engine.
    return static_cast<size_t>(6 + std::clamp(cores / 2, 2L, 16L) + std::clamp(cores, 2L, 16L));
}

Result<> check_grpc_space(uint64_t beside, Report& report) {
    // Buffers, rings, connections, and the stacks of a few helper threads.
    constexpr uint64_t of_rest = uint64_t{64} << 20;
    return check_address_space(grpc_threads(), of_rest + beside, "gRPC", report);
}

}  // namespace ros2s::control
