// A Domain over a worker (worker.h): sessions are set up over a TCP socket, by hellos with the
// addresses of both workers behind them, and then by one empty frame each way, the connecting
// side's first where the library wants it so, which shows that data can pass before anybody relies
// on it.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "ros2s/fabric/domain.h"
#include "ros2s/fabric/lanes/worker.h"

namespace ros2s::fabric::lanes {

struct DomainNames {
    std::string provider;  // as the hello has it
    std::string device;    // for sentences
};

// The function is called once, before this returns.
[[nodiscard]] std::unique_ptr<Domain> make_domain(
    Reactor& reactor, DomainNames names,
    const std::function<std::unique_ptr<Worker>(Counters&)>& make_worker);

}  // namespace ros2s::fabric::lanes
