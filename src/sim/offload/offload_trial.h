// OffloadTrial: one seed's test of hosts, DPUs and a storage server. The hosts' clients use one
// container through FileSystem. Meanwhile the store crashes at device operations, also during
// recovery; the storage server and the DPUs are killed between commit and reply; DPUs are killed at
// any moment; the clocks of the machines are set, by up to a year, each by itself; and the network
// loses, cuts and delays messages. Hosts survive all of it: each of
// their calls must succeed, once. Their observations and the final contents are checked.
#pragma once
#include <chrono>
#include <string>
#include <vector>

#include "network_trouble.h"
#include "ros2s/sim/trace_hash.h"
#include "ros2s/sim/trial.h"
#include "shared_work.h"
#include "versioned_files.h"

namespace ros2s::sim {

// As in production, DPUs spare orphans as long after they start as the store keeps every pin after
// it starts. Hosts open their files again within this time.
inline constexpr Duration offload_grace = std::chrono::seconds(10);

struct OffloadOptions {
    size_t dpus = 1;                        // each has two hosts
    uint32_t cores = 1;                     // of the store; the rig has as many
    uint64_t points = 12;                   // crashes of the store, after which the clients end
    Duration orphan_grace = offload_grace;  // of the DPUs' file systems
    bool leases = false;                    // the DPUs lend leases, and the hosts have caches
    bool keeps_replies = true;  // false: the store forgets update names; the test must detect that
    // Records the clients' operations and their results; the rig's may be the same object. Outlives
    // the trial.
    TraceHash* trace = nullptr;
};

struct OffloadReport {
    uint64_t seed = 0;
    std::vector<CrashPoint> points;
    std::vector<std::string> problems;  // empty: all guarantees held
    uint64_t operations = 0;            // of the clients in their own directories
    SharedWork::Totals shared;          // on shared files and names
    uint64_t storage_strikes = 0;       // kills between commit and reply
    uint64_t device_errors = 0;         // that ended the storage server
    uint64_t dpu_kills = 0;
    uint64_t straight_reads = 0;  // that were begun, in every second life of a DPU
    uint64_t clock_steps = 0;
    NetworkTrouble::Totals trouble;
    uint64_t requests_repeated = 0;  // sent again by a host's channel
    uint64_t replayed = 0;           // stored replies that the store returned
    uint64_t looks = 0;              // at versioned files
    uint64_t hits = 0;               // look-ups and attributes from the hosts' caches
};

// The rig's store must have room for all data of the clients, 1 MiB, and pin_grace = offload_grace.
[[nodiscard]] OffloadReport run_offload_trial(uint64_t seed, const RigFactory& factory,
                                              const OffloadOptions& options);

}  // namespace ros2s::sim
