// DeferredTrial: one seed's test of durability=fsync over a network. Several mounts, each of its
// own process, use one container, encrypted or not. The storage server loses power or is killed,
// often again while changes are repeated; connections are lost. The mounts live on: no call fails,
// and nothing that was acknowledged is lost or done twice.
#pragma once
#include <string>
#include <vector>

#include "ros2s/sim/trial.h"
#include "shared_work.h"

namespace ros2s::sim {

struct DeferredReport {
    uint64_t seed = 0;
    std::vector<std::string> problems;  // empty: all guarantees held
    uint64_t storage_kills = 0;
    uint64_t repeated = 0;  // changes, after losses of power
    SharedWork::Totals work;
    uint64_t trace = 0;  // of the results of all calls
};

// The rig's store has this as its pin_grace.
inline constexpr Duration deferred_grace = std::chrono::seconds(5);
[[nodiscard]] DeferredReport run_deferred_trial(uint64_t seed, const RigFactory& factory);

}  // namespace ros2s::sim
