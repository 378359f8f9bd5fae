// Memory for payload is bounded, and used again without being asked of the kernel again.
#include "ros2s/rpc/memory_budget.h"

#include <gtest/gtest.h>

#include <vector>

#include "ros2s/runtime/sim/world.h"

namespace ros2s::rpc {
namespace {

constexpr uint64_t mib = uint64_t{1} << 20;

struct Stage {
    sim::World world{1};
    Reactor& reactor = world.core();
    Counter held;
    MemoryBudget budget{reactor, 256 * mib, held};
    Semaphore share{reactor, 256 * mib};

    // Takes pieces side by side, and gives all of them back.
    std::vector<const std::byte*> use(uint64_t size, size_t pieces) {
        std::vector<const std::byte*> where;
        world.run([](Stage& self, uint64_t each, size_t count,
                     std::vector<const std::byte*>& seen) -> Task<> {
            std::vector<PayloadMemory> all;
            for (size_t i = 0; i < count; ++i) {
                auto memory = co_await self.budget.take(each, self.share, 256 * mib);
                EXPECT_EQ(memory->bytes().size(), each);
                seen.push_back(memory->bytes().data());
                all.push_back(std::move(*memory));
            }
        }(*this, size, pieces, where));
        EXPECT_EQ(held.value(), 0U);
        EXPECT_LE(budget.kept_bytes(), budget.kept_bytes_max());
        return where;
    }
};

#ifndef ROS2S_SANITIZED
TEST(MemoryBudget, APieceIsUsedAgainByRequestsOfAboutItsSize) {
    Stage stage;
    const auto first = stage.use(mib, 1);
    EXPECT_EQ(stage.use(mib - 4096, 1), first);
    EXPECT_NE(stage.use(4096, 1), first);
    EXPECT_EQ(stage.budget.kept_bytes(), mib + (64 << 10));
}

TEST(MemoryBudget, WhatIsKeptFollowsWhatIsAskedFor) {
    Stage stage;
    stage.use(64 << 10, 2048);
    EXPECT_EQ(stage.budget.kept_bytes(), stage.budget.kept_bytes_max());
    const auto large = stage.use(mib, 1);
    EXPECT_EQ(stage.use(mib, 1), large);
}
#endif

TEST(MemoryBudget, MoreIsGivenBackThanIsKept) {
    Stage stage;
    stage.use(2 * mib, 128);
    stage.use(100 * mib, 1);
}

}  // namespace
}  // namespace ros2s::rpc
