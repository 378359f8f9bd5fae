// Trial: one seed's test of a store. Clients work, the machine crashes, the store recovers (perhaps
// it crashes during recovery), and its contents are checked; several times.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "rig.h"
#include "ros2s/base/random.h"
#include "ros2s/runtime/sim/world.h"

namespace ros2s::sim {

// Creates the rig of a trial. Its decisions are drawn from `random`.
using RigFactory = std::function<std::unique_ptr<Rig>(World& world, Random& random)>;

struct TrialOptions {
    size_t rounds = 6;  // of work; each ends with a crash or, rarely, with a clean close
    size_t cores = 1;   // of the world
    // Most transactions are deferred, some reads come from another process, and clients sync.
    bool deferred = false;
};

struct TrialReport {
    uint64_t seed = 0;
    std::vector<CrashPoint> points;
    std::vector<std::string> problems;  // empty: the store kept its guarantees
    uint64_t transactions = 0;
    uint64_t reads = 0;
    uint64_t clean_closes = 0;
    uint64_t device_errors = 0;  // openings in which a device reported one
    uint64_t clock_steps = 0;    // changes of the machine's clock
    uint64_t expired = 0;        // repetitions whose reply was already dropped
    uint64_t growths = 0;        // acknowledged ones
    uint64_t containers = 0;     // created by the client of containers
};

[[nodiscard]] TrialReport run_trial(uint64_t seed, const RigFactory& factory,
                                    const TrialOptions& options = {});

}  // namespace ros2s::sim
