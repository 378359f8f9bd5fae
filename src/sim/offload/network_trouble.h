// NetworkTrouble: faults of the network of a trial while its clients work: connections that are
// lost at once, in the middle of a transfer, or at random; processes that stall; slow links. Leases
// are tried by worse ones: messages that are late by far more than others, and processes that are
// heard for moments only. Counted by kind.
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
        uint64_t lost = 0, cut = 0, stalled = 0, lossy = 0, slow = 0, late = 0, flapping = 0;
        [[nodiscard]] uint64_t all() const {
            return lost + cut + stalled + lossy + slow + late + flapping;
        }
        Totals& operator+=(const Totals& other);
    };

    // Between the processes with these names. `longest`: of what is not over at once; of the worse
    // kinds twice that. `latest`: a message; 0: there are none of the worse kinds.
    NetworkTrouble(Reactor& reactor, fabric::sim::Network& network,
                   std::vector<std::string> processes, uint64_t seed, Duration longest,
                   Duration latest = {})
        : reactor_(reactor),
          network_(network),
          processes_(std::move(processes)),
          random_(seed),
          longest_(longest),
          latest_(latest) {}

    // Makes trouble until `over`, at random times up to `pause_max` apart, and leaves the network
    // without faults.
    static Task<> make(NetworkTrouble& self, Duration pause_max, const bool& over);
    [[nodiscard]] const Totals& totals() const { return totals_; }

  private:
    Task<> make_one();
    Task<> make_worse(const std::string& process);
    // Waits a random time up to this.
    Task<> pass(Duration most);

    Reactor& reactor_;
    fabric::sim::Network& network_;
    const std::vector<std::string> processes_;
    Random random_;
    const Duration longest_, latest_;
    Totals totals_;
};

}  // namespace ros2s::sim
