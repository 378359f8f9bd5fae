// RemoteRig: a rig whose store is reached over the simulated network: RemoteStore, rpc,
// StoreServer, and behind them another rig's store. In two trials of three connections are lost at
// random, so requests are repeated under their update names, also after a crash.
#pragma once
#include <memory>

#include "ros2s/sim/rig.h"
#include "ros2s/sim/trial.h"

namespace ros2s::sim {

// Totals over all rigs that use it.
struct RemoteTotals {
    uint64_t connections_lost = 0;
    uint64_t requests_repeated = 0;  // sent again by a channel
    uint64_t replayed = 0;           // stored replies that were returned for repeated requests
};

// `totals` outlives the rig.
[[nodiscard]] std::unique_ptr<Rig> make_remote_rig(World& world, Random& random,
                                                   std::unique_ptr<Rig> behind,
                                                   RemoteTotals& totals);

}  // namespace ros2s::sim
