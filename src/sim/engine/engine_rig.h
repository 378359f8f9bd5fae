// EngineRig: the engine, with rules that can be switched off, on simulated disks and an index that
// crashes with them. Pool, journal and memory are small. Blocks are therefore reused soon, the
// journal wraps around, checkpoints are frequent, and the cache is too small.
#pragma once
#include <memory>

#include "ros2s/engine/rules/commit_rules.h"
#include "ros2s/sim/rig.h"
#include "ros2s/sim/trace_hash.h"
#include "ros2s/sim/trial.h"

namespace ros2s::sim {

enum class IndexKind : uint8_t {
    ordered,  // a map that loses any number of unflushed batches
    rocksdb,  // the product's index, on a file system in memory that loses unsynced data
};

// Totals over all rigs of a campaign.
struct EngineTotals {
    uint64_t copies_refused = 0;  // openings with a disk that was restored from an old copy
    uint64_t indexes_full = 0;    // times that the index's disk became full
    uint64_t moved_bytes = 0;     // by cleaners
};

struct EngineRigOptions {
    uint32_t groups_in_flight = 1;
    IndexKind index = IndexKind::ordered;
    engine::CommitRules rules{};  // of the engine that is opened next
    uint64_t data_bytes = 0;      // capacity of all disks for data; 0: drawn, and small
    bool memory = false;          // the first of at least two disks is persistent memory
    // The number of cores that the store is spread over; the world has the same number. With more
    // than one, some operations of the disks are slow.
    uint32_t cores = 1;
    // Sometimes one of at least two disks reports an error for a write, a flush or a read, once or
    // permanently. Some operations are slow.
    bool device_errors = false;
    // In some trials there is room for so few replies that clients lose theirs, after a lease of
    // some ms. Sometimes the index's disk is full.
    bool scarcity = false;
    // Pins outlive their session, and holders are awaited after each opening, for this time.
    Duration pin_grace{};
    // There is a cleaner. Its sections are so small that the pools have many.
    bool cleaner = false;
    EngineTotals* totals = nullptr;  // outlives the rig
    // Records every operation of the disks. Outlives the rig.
    TraceHash* trace = nullptr;
};

[[nodiscard]] std::unique_ptr<Rig> make_engine_rig(World& world, Random& random,
                                                   const EngineRigOptions& options);

}  // namespace ros2s::sim
