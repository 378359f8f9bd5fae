// Alarm: when it calls, how often, and not after its end.
#include "ros2s/runtime/alarm.h"

#include <gtest/gtest.h>

#include <optional>

#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/sim/co_test.h"
#include "ros2s/runtime/test_support/made_reactor.h"

namespace ros2s {
namespace {

using namespace std::chrono_literals;

struct Owner {
    explicit Owner(Reactor& of) : reactor(of), alarm(of, &Owner::ring, this) {}
    static void ring(void* self) noexcept {
        auto& owner = *static_cast<Owner*>(self);
        ++owner.calls;
        owner.called = owner.reactor.now();
        if (owner.again > 0) {
            --owner.again;
            owner.alarm.set(owner.called + 1ms);
        }
    }
    Reactor& reactor;
    Alarm alarm;
    int calls = 0, again = 0;
    Time called{};
};

CO_TEST(Alarm, ReplacedTimeCallsOnceAtTheLastTime, sim::World, world, 1) {
    Owner owner(world.core());
    const Time begun = world.core().now();
    owner.alarm.set(begun + 10ms);
    owner.alarm.set(begun + 5ms);
    owner.alarm.set(begun + 7ms);
    co_await sleep_for(world.core(), 6ms);
    EXPECT_EQ(owner.calls, 0);
    co_await sleep_for(world.core(), 10ms);
    EXPECT_EQ(owner.calls, 1);
    EXPECT_EQ(owner.called, begun + 7ms);
    owner.again = 3;
    owner.alarm.set(world.core().now() + 1ms);
    co_await sleep_for(world.core(), 10ms);
    EXPECT_EQ(owner.calls, 5);
}

// Both are due at once. This one was armed first, so it runs while the alarm is posted.
Task<> end_at(Reactor& reactor, std::optional<Owner>& owner, Time due, bool& was_called) {
    co_await sleep_until(reactor, due);
    was_called = owner->calls > 0;
    owner.reset();
}
Task<> ended(Reactor& reactor) {
    std::optional<Owner> owner(reactor);
    owner->alarm.set(reactor.now() + 1ms);
    owner.reset();
    co_await sleep_for(reactor, 5ms);

    owner.emplace(reactor);
    const Time due = reactor.now() + 5ms;
    bool was_called = true;
    Nursery nursery(reactor, 1);
    co_await nursery.spawn(end_at(reactor, owner, due, was_called));
    owner->alarm.set(due);
    co_await nursery.join();
    EXPECT_FALSE(was_called);
    co_await sleep_for(reactor, 5ms);
}
TEST(Alarm, EndedAlarmNeverCalls) {
    const auto reactor = made_reactor();
    reactor->run(ended(*reactor));
}

}  // namespace
}  // namespace ros2s
