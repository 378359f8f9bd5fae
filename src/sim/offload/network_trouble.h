// NetworkTrouble: faults of the network of a trial while its clients work: connections that are
// lost at once, in the middle of a transfer, or at random; processes that stall; slow links.
// Counted by kind.
#pragma once
#include <string>
#include <vector>

#include "ros2s/base/random.h"
#include "ros2s/fabric/sim/network.h"
#include "ros2s/runtime/reactor.h"

namespace ros2s::sim {

class NetworkTrouble {
  public:
    struct Totals {
        uint64_t lost = 0, cut = 0, stalled = 0, lossy = 0, slow = 0;
        [[nodiscard]] uint64_t all() const { return lost + cut + stalled + lossy + slow; }
        Totals& operator+=(const Totals& other);
    };

    // Between the processes with these names. `longest`: of what is not over at once.
    NetworkTrouble(Reactor& reactor, fabric::sim::Network& network,
                   std::vector<std::string> processes, uint64_t seed, Duration longest)
        : reactor_(reactor),
          network_(network),
          processes_(std::move(processes)),
          random_(seed),
          longest_(longest) {}

    // Makes trouble until `over`, at random times up to `pause_max` apart, and leaves the network
    // without faults.
    static Task<> make(NetworkTrouble& self, Duration pause_max, const bool& over);
    [[nodiscard]] const Totals& totals() const { return totals_; }

  private:
    Task<> make_one();
    // Waits a random time up to this.
    Task<> pass(Duration most);

    Reactor& reactor_;
    fabric::sim::Network& network_;
    const std::vector<std::string> processes_;
    Random random_;
    const Duration longest_;
    Totals totals_;
};

}  // namespace ros2s::sim
