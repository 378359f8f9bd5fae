// Requests run while the policy has not ended, and wait otherwise.
#include "feed.h"

#include <gtest/gtest.h>

#include "ros2s/rpc/options.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/sim/world.h"

namespace ros2s::rights {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct Waiting {
    sim::World world{1};
    Feed feed{world.core()};
    [[nodiscard]] Time now() { return world.core().now(); }
    void pass(Duration time) {
        world.run([](Reactor& reactor, Duration left) -> Task<> {
            co_await sleep_for(reactor, left);
        }(world.core(), time));
    }
    Result<> wait(const Call& call = {}) { return world.run(feed.wait(call, "pool")); }
};

TEST(Feed, PolicyIsUsedUntilItsEnd) {
    Waiting server;
    EXPECT_FALSE(server.feed.is_over(server.now()));  // of a pool that nobody else knows
    EXPECT_TRUE(server.wait());
    server.feed.renew("pool", server.now() + milliseconds(750));
    server.feed.renew("other", server.now() + seconds(9));
    server.pass(milliseconds(700));
    EXPECT_FALSE(server.feed.is_over(server.now()));
    server.pass(milliseconds(100));
    EXPECT_TRUE(server.feed.is_over(server.now()));
    EXPECT_TRUE(server.feed.is_over("pool"));
    EXPECT_FALSE(server.feed.is_over("other"));
    EXPECT_FALSE(server.feed.is_over("never renewed"));
    server.feed.renew("pool", server.now() + milliseconds(750));
    EXPECT_FALSE(server.feed.is_over(server.now()));
}

// As after the process stood still.
TEST(Feed, RequestThatArrivesAfterTheEndWaitsBeforeTheTimerRuns) {
    Waiting server;
    const Time end = server.now() + milliseconds(750);
    server.feed.renew("pool", end);
    EXPECT_FALSE(server.feed.is_over(end));
    EXPECT_TRUE(server.feed.is_over(end + Duration(1)));
}

// The timer waits for the first end, in whatever order they come.
TEST(Feed, EachPoolHasItsEnd) {
    Waiting server;
    server.feed.renew("late", server.now() + seconds(9));
    server.feed.renew("early", server.now() + seconds(1));
    server.feed.renew("middle", server.now() + seconds(5));
    server.pass(seconds(2));
    EXPECT_TRUE(server.feed.is_over("early"));
    EXPECT_FALSE(server.feed.is_over("middle"));
    server.feed.renew("early", server.now() + seconds(1));
    EXPECT_FALSE(server.feed.is_over(server.now()));
    server.feed.renew("early", server.now() + seconds(60));
    server.pass(seconds(4));
    EXPECT_TRUE(server.feed.is_over("middle"));
    server.feed.renew("middle", server.now() - milliseconds(1));  // an answer that was too late
    EXPECT_TRUE(server.feed.is_over("middle"));
    server.pass(seconds(10));
    EXPECT_TRUE(server.feed.is_over("late"));
    EXPECT_FALSE(server.feed.is_over("early"));
}

TEST(Feed, NewsIsAnotherEpochAndNotALaterEnd) {
    Waiting server;
    server.feed.renew("pool", server.now() + seconds(1));
    const uint64_t epoch = server.feed.policy().epoch();
    const Policy before = server.feed.replace({.subjects = {{"CN=a", {}}}});
    EXPECT_EQ(before.epoch(), epoch);
    EXPECT_EQ(before.subject("CN=a"), nullptr);
    EXPECT_NE(server.feed.policy().subject("CN=a"), nullptr);
    EXPECT_GT(server.feed.policy().epoch(), epoch);
    server.pass(seconds(2));
    EXPECT_TRUE(server.feed.is_over("pool"));
    server.feed.replace({});
    EXPECT_TRUE(server.feed.is_over("pool"));
}

Task<> renew_later(Waiting& server, Duration later) {
    co_await sleep_for(server.world.core(), later);
    server.feed.renew("pool", server.now() + seconds(1));
}
Task<> wait_and_renew(Waiting& server) {
    Nursery nursery(server.world.core(), 1);
    co_await nursery.spawn(renew_later(server, seconds(3)));
    const Time begun = server.now();
    EXPECT_TRUE(co_await server.feed.wait({}, "pool"));
    EXPECT_GE(server.now() - begun, seconds(3));
    EXPECT_LE(server.now() - begun, seconds(4));
    co_await nursery.join();
}
Task<> stop_later(Waiting& server, StopSource& stop) {
    co_await sleep_for(server.world.core(), milliseconds(20));
    stop.request_stop();
}
Task<> wait_and_stop(Waiting& server) {
    StopSource stop;
    Nursery nursery(server.world.core(), 1);
    co_await nursery.spawn(stop_later(server, stop));
    const auto waited = co_await server.feed.wait({.stop = stop.token()}, "pool");
    EXPECT_EQ(waited.error().code, Code::cancelled);
    co_await nursery.join();
}

TEST(Feed, RequestsWaitForRenewal) {
    Waiting server;
    server.feed.renew("pool", server.now());
    server.pass(milliseconds(1));
    server.world.run(wait_and_renew(server));
    server.pass(seconds(2));
    server.world.run(wait_and_stop(server));
    EXPECT_EQ(server.wait({.deadline = server.now() + milliseconds(5)}).error().code,
              Code::deadline);
    const Time begun = server.now();
    const auto in_vain = server.wait();
    EXPECT_EQ(in_vain.error().code, Code::disconnected);
    EXPECT_EQ(in_vain.error().os_errno, rpc::absent_behind);
    EXPECT_GE(server.now() - begun, Feed::patience);
}

}  // namespace
}  // namespace ros2s::rights
