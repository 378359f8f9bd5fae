#include "rename_order.h"

#include <gtest/gtest.h>

#include "ros2s/base/check.h"
#include "ros2s/base/random.h"
#include "ros2s/engine/index/rocksdb/sim/simulated_files.h"

namespace ros2s::engine {
namespace {

// RocksDB's steps to begin a new manifest, with a crash before it syncs the directory. True if
// afterwards CURRENT names a manifest that does not exist.
bool loses_the_manifest(bool ordered, uint64_t seed) {
    SimulatedFiles files;
    std::shared_ptr<rocksdb::Env> env = files.mount();
    if (ordered) env = env_with_rename_order(env);
    auto& system = *env->GetFileSystem();
    ROS2S_CHECK(rocksdb::WriteStringToFile(&system, "edits", "/MANIFEST-2", true).ok());
    ROS2S_CHECK(rocksdb::WriteStringToFile(&system, "MANIFEST-2", "/2.dbtmp", true).ok());
    ROS2S_CHECK(system.RenameFile("/2.dbtmp", "/CURRENT", {}, nullptr).ok());
    Random random(seed);
    files.crash(random);
    auto after = files.mount();
    return after->FileExists("/CURRENT").ok() && !after->FileExists("/MANIFEST-2").ok();
}

TEST(RenameOrder, RenameWaitsForEarlierFiles) {
    int lost_without = 0;
    for (uint64_t seed = 0; seed < 500; ++seed) {
        EXPECT_FALSE(loses_the_manifest(true, seed)) << "seed " << seed;
        lost_without += loses_the_manifest(false, seed) ? 1 : 0;
    }
    EXPECT_GT(lost_without, 10) << "the simulation no longer shows why this is needed";
}

}  // namespace
}  // namespace ros2s::engine
