// Memory for payload is reused without asking the kernel, up to a bound.
#include "ros2s/rpc/payload_pool.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "ros2s/runtime/sim/world.h"

namespace ros2s::rpc {
namespace {

constexpr uint64_t pool_mib = uint64_t{1} << 20;

struct PoolStage {
    sim::World world{1};
    ServerGroup group{world.core()};
    Counter held;
    PayloadPool pool{group, held};

    // Takes pieces at the same time, and returns all of them.
    std::vector<const std::byte*> use(uint64_t size, size_t pieces) {
        std::vector<const std::byte*> where;
        std::vector<PayloadMemory> all;
        for (size_t i = 0; i < pieces; ++i) {
            all.push_back(pool.take(size));
            EXPECT_EQ(all.back().bytes().size(), size);
            where.push_back(all.back().bytes().data());
        }
        EXPECT_EQ(held.value(), size * pieces);
        all.clear();
        EXPECT_EQ(held.value(), 0U);
        EXPECT_LE(pool.kept_bytes(), pool.kept_bytes_max());
        return where;
    }
};

#ifndef ROS2S_SANITIZED
TEST(PayloadPool, APieceIsUsedAgainByRequestsOfAboutItsSize) {
    PoolStage stage;
    const auto first = stage.use(pool_mib, 1);
    EXPECT_EQ(stage.use(pool_mib - 4096, 1), first);
    const auto block = stage.use(4096, 1);
    EXPECT_NE(block, first);
    EXPECT_EQ(stage.pool.kept_bytes(), pool_mib + 4096);
    EXPECT_EQ(stage.use(1, 1), block);
    const auto larger = stage.use(5000, 1);
    EXPECT_NE(larger, block);
    EXPECT_EQ(stage.use(8192, 1), larger);
    EXPECT_EQ(stage.pool.kept_bytes(), pool_mib + 4096 + 8192);
}

TEST(PayloadPool, WhatIsKeptFollowsWhatIsAskedFor) {
    PoolStage stage;
    stage.use(64 << 10, 2048);
    EXPECT_EQ(stage.pool.kept_bytes(), stage.pool.kept_bytes_max());
    const auto large = stage.use(pool_mib, 1);
    EXPECT_EQ(stage.use(pool_mib, 1), large);
}

TEST(PayloadPool, SpareMemoryOfAllPoolsIsDropped) {
    PoolStage stage;
    PayloadPool other(stage.group, stage.held);
    stage.use(pool_mib, 8);
    const PayloadMemory used = other.take(pool_mib);
    (void)other.take(2 * pool_mib);
    EXPECT_EQ(stage.group.kept_bytes, 10 * pool_mib);
    stage.group.drop_spare();
    EXPECT_EQ(stage.group.kept_bytes, 0U);
    EXPECT_EQ(stage.pool.kept_bytes() + other.kept_bytes(), 0U);
    used.bytes()[pool_mib - 1] = std::byte{1};  // is not spare
}
#endif

TEST(PayloadPool, MoreIsGivenBackThanIsKept) {
    PoolStage stage;
    stage.use(2 * pool_mib, 128);
    stage.use(100 * pool_mib, 1);
}

TEST(PayloadPool, AllPoolsOfAGroupKeepNoMoreThanItMay) {
    PoolStage stage;
    std::vector<std::unique_ptr<PayloadPool>> pools;
    for (int i = 0; i < 10; ++i) {
        pools.push_back(std::make_unique<PayloadPool>(stage.group, stage.held));
        (void)pools.back()->take(60 * pool_mib);
        EXPECT_LE(stage.group.kept_bytes, ServerGroup::kept_bytes_max);
    }
    pools.clear();
    EXPECT_EQ(stage.group.kept_bytes, 0U);
}

}  // namespace
}  // namespace ros2s::rpc
