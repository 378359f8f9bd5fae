// Trial: one seed's story of a store: clients work, the machine crashes, the store recovers,
// perhaps after crashing in its recovery, and what it then holds is judged; several times over.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "rig.h"
#include "ros2s/base/random.h"
#include "ros2s/runtime/sim/world.h"

namespace ros2s::sim {

// Makes the rig of a trial. What it decides it draws from `random`.
using RigFactory = std::function<std::unique_ptr<Rig>(World& world, Random& random)>;

struct TrialOptions {
    size_t rounds = 6;  // of work, each ended by a crash or, rarely, by a clean close
    size_t cores = 1;   // that the world has
};

struct TrialReport {
    uint64_t seed = 0;
    std::vector<CrashPoint> points;
    std::vector<std::string> problems;  // empty: the store kept its promises
    uint64_t transactions = 0;
    uint64_t reads = 0;
    uint64_t clean_closes = 0;
    uint64_t device_errors = 0;  // openings in which a device reported one
    uint64_t clock_steps = 0;    // times that the machine's clock was set
    uint64_t expired = 0;        // repetitions whose reply was not kept any more
    uint64_t growths = 0;        // that were acknowledged
    uint64_t containers = 0;     // that the client of containers made
};

[[nodiscard]] TrialReport run_trial(uint64_t seed, const RigFactory& factory,
                                    const TrialOptions& options = {});

}  // namespace ros2s::sim
