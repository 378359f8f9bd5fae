#include "deferred_trial.h"

#include <gtest/gtest.h>

#include "ros2s/sim/engine/engine_rig.h"

namespace ros2s::sim {
namespace {

DeferredReport run(uint64_t seed) {
    const EngineRigOptions rig{.data_bytes = 8 << 20, .pin_grace = deferred_grace};
    return run_deferred_trial(
        seed, [&](World& world, Random& random) { return make_engine_rig(world, random, rig); });
}

TEST(DeferredTrial, ServerThatLosesPowerLosesNothingOfLivingMounts) {
    uint64_t kills = 0, repeated = 0;
    for (uint64_t seed = 1; seed <= 6; ++seed) {
        const DeferredReport report = run(seed);
        for (const std::string& text : report.problems)
            ADD_FAILURE() << "seed " << seed << ": " << text;
        kills += report.storage_kills;
        repeated += report.repeated;
    }
    EXPECT_GT(kills, 30U);
    EXPECT_GT(repeated, 100U);
}

TEST(DeferredTrial, SeedDeterminesTheRun) { EXPECT_EQ(run(7).trace, run(7).trace); }

}  // namespace
}  // namespace ros2s::sim
