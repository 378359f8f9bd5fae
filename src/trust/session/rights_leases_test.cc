// Leases of rights: calls that need them run while they are valid, and wait otherwise.
#include "rights_leases.h"

#include <gtest/gtest.h>

#include "ros2s/rpc/options.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/sim/world.h"

namespace ros2s::session {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct Waiting {
    sim::World world{1};
    RightsLeases leases{world.core()};
    [[nodiscard]] Time now() { return world.core().now(); }
    void pass(Duration time) {
        world.run([](Reactor& reactor, Duration left) -> Task<> {
            co_await sleep_for(reactor, left);
        }(world.core(), time));
    }
    Result<> wait(const Call& call = {}) { return world.run(leases.wait(call, "pool")); }
};

TEST(RightsLeases, LeaseHoldsUntilItsEnd) {
    Waiting server;
    EXPECT_TRUE(server.leases.hold());  // of a pool that nobody else knows
    EXPECT_TRUE(server.wait());
    server.leases.renew("pool", server.now() + milliseconds(750));
    server.leases.renew("other", server.now() + seconds(9));
    server.pass(milliseconds(700));
    EXPECT_TRUE(server.leases.hold());
    server.pass(milliseconds(100));
    EXPECT_FALSE(server.leases.hold());
    EXPECT_FALSE(server.leases.holds("pool"));
    EXPECT_TRUE(server.leases.holds("other"));
    EXPECT_TRUE(server.leases.holds("without a lease"));
    server.leases.renew("pool", server.now() + milliseconds(750));
    EXPECT_TRUE(server.leases.hold());
}

Task<> renew_later(Waiting& server, Duration later) {
    co_await sleep_for(server.world.core(), later);
    server.leases.renew("pool", server.now() + seconds(1));
}
Task<> wait_and_renew(Waiting& server) {
    Nursery nursery(server.world.core(), 1);
    co_await nursery.spawn(renew_later(server, seconds(3)));
    const Time begun = server.now();
    EXPECT_TRUE(co_await server.leases.wait({}, "pool"));
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
    const auto waited = co_await server.leases.wait({.stop = stop.token()}, "pool");
    EXPECT_EQ(waited.error().code, Code::cancelled);
    co_await nursery.join();
}

TEST(RightsLeases, RequestsWaitForRenewal) {
    Waiting server;
    server.leases.renew("pool", server.now());
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
    EXPECT_GE(server.now() - begun, RightsLeases::patience);
}

}  // namespace
}  // namespace ros2s::session
