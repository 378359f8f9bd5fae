// The contract suite: what every provider must do, as tests over a factory.
//
//     ROS2S_FABRIC_CONTRACT(SimFabric, [] { return std::make_unique<…>(…); });
//
// in a *_test.cc of a program that links GTest's main registers every case as SimFabric.<case>.
// A case has two halves, the client's and the server's. They share only the connection, so that
// they run on one core, on two, or in two processes.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "ros2s/fabric/domain.h"
#include "ros2s/runtime/reactor.h"

namespace ros2s::fabric::contract {

enum class Side : uint8_t { client, server };

class Setup {
  public:
    virtual ~Setup() = default;
    // May be the same core for both sides.
    [[nodiscard]] virtual Reactor& core(Side side) = 0;
    // Runs the task on the client's core and returns when it is done.
    virtual void run(Task<> task) = 0;
    // Called on the side's core.
    [[nodiscard]] virtual Result<std::unique_ptr<Domain>> open_domain(Side side,
                                                                      Report& report) = 0;
    // Returns an address to listen on.
    [[nodiscard]] virtual std::string address() = 0;
    // An address without a listener, derived from the server's.
    [[nodiscard]] virtual std::string unused_address(const std::string& address) {
        return address + "1";
    }
    // Connects as a peer of another provider would, and returns the outcome.
    [[nodiscard]] virtual Task<Result<>> connect_as_another(Domain& client, std::string address,
                                                            Report& report) = 0;
};

using Factory = std::function<std::unique_ptr<Setup>()>;

// Called once, before GTest runs. With `fork_client`, the client's half of each case runs in a
// forked child, with a set-up of its own from the same factory.
bool register_contract(const std::string& name, const Factory& factory, bool fork_client = false);

}  // namespace ros2s::fabric::contract

#define ROS2S_FABRIC_CONTRACT(name, factory)                 \
    [[maybe_unused]] static const bool name##_has_contract = \
        ::ros2s::fabric::contract::register_contract(#name, factory)
#define ROS2S_FABRIC_CONTRACT_TWO_PROCESSES(name, factory)   \
    [[maybe_unused]] static const bool name##_has_contract = \
        ::ros2s::fabric::contract::register_contract(#name, factory, true)
