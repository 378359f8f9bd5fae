// EngineRig: the engine as it is linked into the product, on simulated disks and an index that
// crashes with them. Pool, journal and memory are small, so that blocks are used again soon, the
// journal goes round, checkpoints are many and the cache is too small.
#pragma once
#include <memory>

#include "ros2s/engine/commit_rules.h"
#include "ros2s/sim/rig.h"
#include "ros2s/sim/trace_hash.h"
#include "ros2s/sim/trial.h"

namespace ros2s::sim {

enum class IndexKind : uint8_t {
    ordered,  // a map, which loses any number of unflushed batches
    rocksdb,  // the product's, on a file system in memory that loses what is not synced
};

// What a campaign's rigs have met.
struct EngineTotals {
    uint64_t copies_refused = 0;  // openings with a disk that was restored from an old copy
    uint64_t indexes_full = 0;    // times that the index's disk became full
};

struct EngineRigOptions {
    uint32_t groups_in_flight = 1;
    IndexKind index = IndexKind::ordered;
    engine::CommitRules rules{};
    uint64_t data_bytes = 0;  // what all disks have for data; 0: drawn, and small
    bool memory = false;      // the first disk, of two at least, is persistent memory
    // That the store is spread over; the world has so many. With more than one some operations of
    // the disks are slow.
    uint32_t cores = 1;
    // Now and then a disk, of two at least, reports an error for a write, a flush or a read, once
    // or from then on; and some operations are slow.
    bool device_errors = false;
    // In some trials replies are so few that clients lose theirs, after a lease of some ms; now and
    // then the disk of the index is full.
    bool scarcity = false;
    EngineTotals* totals = nullptr;  // outlives the rig
    // Gets every operation of the disks. Outlives the rig.
    TraceHash* trace = nullptr;
};

[[nodiscard]] std::unique_ptr<Rig> make_engine_rig(World& world, Random& random,
                                                   const EngineRigOptions& options);

}  // namespace ros2s::sim
