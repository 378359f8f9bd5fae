// Calls of one caller wait for each other, and nobody else's do.
#include "caller_turns.h"

#include <gtest/gtest.h>

#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/sim/world.h"

namespace ros2s::control {
namespace {

using namespace std::chrono_literals;

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
    co_await sleep_for(reactor, 10ms);
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

TEST(CallerTurns, ACallerWithManyCallsDelaysItselfAlone) {
    sim::World world(1);
    world.run(flood(world.core()));
}

}  // namespace
}  // namespace ros2s::control
