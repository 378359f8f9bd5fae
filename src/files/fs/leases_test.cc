#include "leases.h"

#include <gtest/gtest.h>

#include "ros2s/runtime/nursery.h"
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
    Task<> hear_in_time(int answers_without, Duration time, uint64_t& era, int& asked);

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

// Has no leases in the first answers.
class SlowServer final : public LeaseServer {
  public:
    SlowServer(Reactor& reactor, int answers_without)
        : reactor_(reactor), without_(answers_without) {}
    Task<News> hear(bool, Time sent) override {
        ++asked_;
        co_await sleep_for(reactor_, 1ms);
        if (asked_ <= without_) co_return News{};
        co_return News{.lost = false, .until = sent + 1s};
    }
    Task<> leave() override { co_return; }
    [[nodiscard]] int asked() const { return asked_; }

  private:
    Reactor& reactor_;
    const int without_;
    int asked_ = 0;
};

Task<> listen_in(LeaseSet& leases, LeaseServer& server, StopToken stop) {
    co_await leases.listen(server, stop);
}

Task<> LeaseSets::hear_in_time(int answers_without, Duration time, uint64_t& era, int& asked) {
    SlowServer server(world_.core(), answers_without);
    LeaseSet leases(world_.core());
    StopSource stop;
    Nursery listening(world_.core(), 1);
    co_await listening.spawn(listen_in(leases, server, stop.token()));
    co_await pass(time);
    era = leases.era();
    asked = server.asked();
    stop.request_stop();
    co_await listening.join();
}

TEST_F(LeaseSets, ServerThatHasJustBegunIsAskedAgainSoon) {
    uint64_t era = 0;
    int asked = 0;
    world_.run(hear_in_time(2, 30ms, era, asked));
    EXPECT_EQ(era, 1u);
}

TEST_F(LeaseSets, ServerWithoutLeasesIsAskedTenTimesASecond) {
    uint64_t era = 0;
    int asked = 0;
    world_.run(hear_in_time(1'000'000, 10s, era, asked));
    EXPECT_EQ(era, 0u);
    EXPECT_LE(asked, 110);
    EXPECT_GE(asked, 90);
}

}  // namespace
}  // namespace ros2s::fs
