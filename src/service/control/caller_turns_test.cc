// Calls of one caller wait for each other. They do not delay calls of other callers.
#include "caller_turns.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/sim/world.h"

namespace ros2s::control {
namespace {

using namespace std::chrono_literals;

constexpr auto work_time = 11ms;

struct Progress {
    size_t running = 0, most = 0, done = 0, late = 0;
};

Task<> work_in_turn(Reactor& reactor, CallerTurns& turns, Call call, std::string caller,
                    Progress& progress) {
    const auto turn = co_await turns.take(call, caller);
    if (!turn) {
        EXPECT_EQ(turn.error().code, Code::deadline);
        ++progress.late;
        co_return;
    }
    progress.most = std::max(progress.most, ++progress.running);
    co_await sleep_for(reactor, work_time);
    --progress.running;
    ++progress.done;
}

Task<> flood(Reactor& reactor) {
    CallerTurns turns(reactor, 3);
    Nursery nursery(reactor, 64);
    Progress many, one;
    const Call soon{.deadline = reactor.now() + 35ms};
    for (int i = 0; i < 20; ++i) {
        co_await nursery.spawn(work_in_turn(reactor, turns, {}, "CN=many", many));
    }
    for (int i = 0; i < 20; ++i) {
        co_await nursery.spawn(work_in_turn(reactor, turns, soon, "CN=many", many));
    }
    EXPECT_EQ(turns.running("CN=many"), 3U);
    co_await work_in_turn(reactor, turns, {}, "CN=one", one);
    EXPECT_EQ(one.done, 1U);
    EXPECT_LE(many.done, 3U) << "the other one did not wait for them";
    co_await nursery.join();
    EXPECT_EQ(many.most, 3U);
    EXPECT_GT(many.late, 0U);
    EXPECT_GE(many.done, 20U) << "those that may wait";
    EXPECT_EQ(many.done + many.late, 40U);
    EXPECT_EQ(turns.running("CN=many"), 0U);
}

Task<> work_through(Reactor& reactor) {
    CallerTurns turns(reactor, 1);
    Nursery nursery(reactor, 64);
    Progress all;
    const Time begin = reactor.now();
    for (int i = 0; i < 5; ++i) {
        co_await nursery.spawn(work_in_turn(reactor, turns, {}, "CN=one", all));
    }
    const Call ended{.deadline = begin};
    EXPECT_EQ((co_await turns.take(ended, "CN=one")).error().code, Code::deadline);
    EXPECT_EQ((co_await turns.take(ended, "CN=two")).error().code, Code::deadline);
    EXPECT_EQ(turns.running("CN=two"), 0U);
    co_await nursery.join();
    EXPECT_EQ(all.done, 5U);
    EXPECT_EQ(reactor.now() - begin, 5 * work_time) << "each began when the one before it ended";
}

TEST(CallerTurns, WaiterBeginsWhenTurnEnds) {
    sim::World world(1);
    world.run(work_through(world.core()));
}

TEST(CallerTurns, BusyCallerDelaysOnlyItself) {
    sim::World world(1);
    world.run(flood(world.core()));
}

}  // namespace
}  // namespace ros2s::control
