#include <gtest/gtest.h>

#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/reactor.h"
#include "ros2s/runtime/sim/world.h"
#include "ros2s/runtime/sync.h"

namespace ros2s {
namespace {

Task<int> one() { co_return 1; }
Task<int> sum_of(int n) {
    int sum = 0;
    for (int i = 0; i < n; ++i) sum += co_await one();
    co_return sum;
}
TEST(Task, AMillionSynchronousCompletionsDoNotGrowTheStack) {
    sim::World world(1);
    EXPECT_EQ(world.run(sum_of(1'000'000)), 1'000'000);
}

Task<> note(Reactor& reactor, std::vector<int>& order, int n, Duration delay) {
    co_await sleep_for(reactor, delay);
    order.push_back(n);
}
Task<> sleepers(Reactor& reactor, std::vector<int>& order) {
    Nursery nursery(reactor, 2);
    co_await nursery.spawn(note(reactor, order, 3, std::chrono::hours(3)));
    co_await nursery.spawn(note(reactor, order, 1, std::chrono::hours(1)));
    co_await nursery.spawn(note(reactor, order, 2, std::chrono::minutes(90)));  // from 1 h on
    co_await nursery.join();
}
TEST(Nursery, BoundsItsChildrenAndVirtualTimeJumps) {
    sim::World world(1);
    std::vector<int> order;
    world.run(sleepers(world.core(), order));
    EXPECT_EQ(order, (std::vector{1, 2, 3}));
    EXPECT_EQ(world.now().time_since_epoch(), std::chrono::hours(3));
}

Task<> stop_after(Reactor& reactor, StopSource& source, Duration delay) {
    co_await sleep_for(reactor, delay);
    source.request_stop();
}
Task<bool> stopped_sleep(Reactor& reactor) {
    StopSource source;
    Nursery nursery(reactor, 1);
    co_await nursery.spawn(stop_after(reactor, source, std::chrono::seconds(1)));
    const bool slept = co_await sleep_for(reactor, std::chrono::hours(1), source.token());
    co_await nursery.join();
    co_return slept;
}
TEST(Sleep, EndsWhenItIsStopped) {
    sim::World world(1);
    EXPECT_FALSE(world.run(stopped_sleep(world.core())));
    EXPECT_EQ(world.now().time_since_epoch(), std::chrono::seconds(1));
}

Task<bool> hops(Reactor& home, Reactor& other) {
    co_await hop(other);
    const bool there = other.is_current() && !home.is_current();
    co_await hop(home);
    co_return there&& home.is_current();
}
TEST(Hop, ChangesTheCore) {
    sim::World world(1, 2);
    EXPECT_TRUE(world.run(hops(world.core(0), world.core(1))));
}

Task<int> blocking(Reactor& home, BlockingPool& pool) {
    co_return co_await pool.run(home, [] { return 7; });
}
TEST(BlockingPool, ReturnsWhatTheJobReturned) {
    sim::World world(1);
    EXPECT_EQ(world.run(blocking(world.core(), world.blocking())), 7);
}

}  // namespace
}  // namespace ros2s
