// SharingTrial: one seed's test of leases and locks: up to eight hosts behind one to three DPUs use
// one container. Hosts and DPUs are killed or stand still, the storage server is killed, messages
// are lost, slow and late, and the machines' clocks run at different speeds. What the hosts see of
// files and their locks is judged (versioned_files.h, lock_work.h). Calls of living hosts succeed.
#pragma once
#include <chrono>
#include <string>
#include <vector>

#include "lock_work.h"
#include "network_trouble.h"
#include "ros2s/sim/trial.h"

namespace ros2s::sim {

struct SharingReport {
    uint64_t seed = 0;
    std::vector<std::string> problems;  // empty: all guarantees held
    uint64_t looks = 0;                 // at versioned files
    uint64_t hits = 0;                  // look-ups and attributes from the hosts' caches
    uint64_t host_kills = 0, dpu_kills = 0, storage_kills = 0;
    LockWork::Totals locks;
    NetworkTrouble::Totals trouble;
    uint64_t repeated = 0;  // DeferredReport::repeated
    uint64_t trace = 0;     // of the results of all calls
};

// The rig's store has this as its pin_grace.
inline constexpr Duration sharing_grace = std::chrono::seconds(5);
[[nodiscard]] SharingReport run_sharing_trial(uint64_t seed, const RigFactory& factory);

}  // namespace ros2s::sim
