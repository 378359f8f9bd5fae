#include "leases.h"

#include <gtest/gtest.h>

#include "ros2s/runtime/sim/world.h"

namespace ros2s::fs {
namespace {

using namespace std::chrono_literals;

class LeaseSets : public testing::Test {
  protected:
    void SetUp() override {
        world_.run(leases_.begin(1));
        leases_.extend(1, world_.core().now() + 1s);
    }
    Task<> pass(Duration time) { co_await sleep_for(world_.core(), time); }

    sim::World world_{1};
    LeaseSet leases_{world_.core()};
};

TEST_F(LeaseSets, TakenLeaseIsHeldUntilItIsRecalled) {
    EXPECT_TRUE(leases_.take(1, {5, 10}));
    EXPECT_TRUE(leases_.holds({5, 10}));
    EXPECT_FALSE(leases_.holds({5, 9}));
    world_.run(leases_.recall({{5, 10}}));
    EXPECT_FALSE(leases_.holds({5, 10}));
}

TEST_F(LeaseSets, ReplyThatARecallOvertookBringsNoLease) {
    world_.run(leases_.recall({{5, 10}}));
    EXPECT_FALSE(leases_.take(1, {5, 10}));
    EXPECT_TRUE(leases_.take(1, {5, 11}));
    EXPECT_TRUE(leases_.holds({5, 11}));
}

TEST_F(LeaseSets, RecallOfAnOlderLeaseLeavesTheNewOne) {
    EXPECT_TRUE(leases_.take(1, {5, 11}));
    world_.run(leases_.recall({{5, 10}}));
    EXPECT_TRUE(leases_.holds({5, 11}));
}

TEST_F(LeaseSets, LeaseEndsWithoutExtension) {
    EXPECT_TRUE(leases_.take(1, {5, 10}));
    world_.run(pass(1s));
    EXPECT_FALSE(leases_.holds({5, 10}));
}

TEST_F(LeaseSets, RepliesOfAnotherEraBringNothing) {
    EXPECT_FALSE(leases_.take(2, {5, 10}));
    EXPECT_TRUE(leases_.take(1, {5, 10}));
    world_.run(leases_.begin(2));
    leases_.extend(1, world_.core().now() + 1s);
    EXPECT_FALSE(leases_.holds({5, 10}));
    leases_.extend(2, world_.core().now() + 1s);
    EXPECT_FALSE(leases_.holds({5, 10}));
    EXPECT_FALSE(leases_.take(1, {5, 11}));
    EXPECT_TRUE(leases_.take(2, {5, 3}));
    EXPECT_TRUE(leases_.holds({5, 3}));
}

}  // namespace
}  // namespace ros2s::fs
