// A Domain over a worker (worker.h). Sessions are set up over a TCP socket: hellos in both
// directions, followed by the addresses of both workers. Then each side sends one empty frame,
// which shows that data can pass before the session is used. If the library requires it, the
// connecting side sends first.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "ros2s/fabric/domain.h"
#include "ros2s/fabric/lanes/worker.h"

namespace ros2s::fabric::lanes {

struct Options {
    std::string provider;  // "ucx+tcp", "ofi+verbs;ofi_rxm"
    // The one device that carries data: "lo", "eth0" (tcp), "mlx5_0" or "mlx5_0:1" (verbs).
    std::string device;
};

// The function is called once, before make_domain() returns.
[[nodiscard]] std::unique_ptr<Domain> make_domain(
    Reactor& reactor, Options options,
    const std::function<std::unique_ptr<Worker>(Counters&)>& make_worker);

}  // namespace ros2s::fabric::lanes
