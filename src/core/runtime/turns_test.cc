// Which tenant gets a place, such as a helper thread.
#include "turns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <string>

#include "ros2s/base/random.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/sim/co_test.h"

namespace ros2s {
namespace {

using testing::ElementsAre;
using testing::Pair;

constexpr size_t threads = 8;

class SharedThreads : public testing::Test {
  protected:
    struct Held {
        explicit Held(Reactor& reactor, uint64_t its_tenant) : tenant(its_tenant), end(reactor) {}
        const uint64_t tenant;
        Event end;
    };
    // A call that blocks until it is ended.
    static Task<> call(SharedThreads& self, uint64_t tenant) {
        const auto place = co_await self.turns.enter({}, tenant);
        Held held(self.world.core(), tenant);
        self.on_threads.push_back(&held);
        EXPECT_LE(self.on_threads.size(), threads);
        co_await held.end;
        ++self.ended[tenant];
    }
    Task<> want(uint64_t tenant, size_t count) {
        for (size_t i = 0; i < count; ++i) co_await calls.spawn(call(*this, tenant));
        co_await let_pass();
    }
    Task<> let_pass() { (void)co_await sleep_for(world.core(), std::chrono::milliseconds(1)); }
    Task<> end(std::deque<Held*>::iterator which) {
        Held* const held = *which;
        on_threads.erase(which);
        held->end.set();
        co_await let_pass();
    }
    Task<> end_all() {
        while (!on_threads.empty()) co_await end(on_threads.begin());
        co_await calls.join();
    }
    [[nodiscard]] std::map<uint64_t, size_t> counts() const {
        std::map<uint64_t, size_t> counts;
        for (const Held* held : on_threads) ++counts[held->tenant];
        return counts;
    }

    sim::World world{1};
    ThreadTurns turns{world.core(), threads};
    Nursery calls{world.core(), 1 << 16};
    std::deque<Held*> on_threads;
    std::map<uint64_t, size_t> ended;

  public:
    Task<> leaves_half() {
        co_await want(1, 100);
        EXPECT_THAT(counts(), ElementsAre(Pair(1, 4)));
        co_await want(2, 100);
        EXPECT_THAT(counts(), ElementsAre(Pair(1, 4), Pair(2, 2)));
        co_await want(3, 100);
        co_await want(4, 100);
        EXPECT_THAT(counts(), ElementsAre(Pair(1, 4), Pair(2, 2), Pair(3, 1), Pair(4, 1)));
        // The next one waits, and is first when a thread is free.
        co_await want(5, 1);
        EXPECT_FALSE(counts().contains(5));
        co_await end(on_threads.begin());
        EXPECT_TRUE(counts().contains(5));
        co_await end_all();
        EXPECT_EQ(ended[1], 100U);
        EXPECT_EQ(ended[4], 100U);
    }
    Task<> takes_turns() {
        for (uint64_t tenant = 1; tenant <= 16; ++tenant) co_await want(tenant, 64);
        for (int i = 0; i < 500; ++i) co_await end(on_threads.begin());
        for (uint64_t tenant = 1; tenant <= 16; ++tenant) {
            EXPECT_GE(ended[tenant], 500U / 16 - 8) << tenant;
        }
        co_await end_all();
    }
    Task<> goes_on_beside_hung_calls() {
        co_await want(1, 256);
        EXPECT_EQ(on_threads.size(), 4U);
        for (int i = 0; i < 200; ++i) {
            co_await want(2, 1);
            EXPECT_EQ(on_threads.back()->tenant, 2U);
            co_await end(std::prev(on_threads.end()));
        }
        EXPECT_EQ(ended[2], 200U);
        co_await end_all();
    }
    static Task<> stoppable(SharedThreads& self, uint64_t tenant, StopToken stop, Result<>& done) {
        const auto place = co_await enter_in_time(&self.turns, {.stop = stop, .tenant = tenant});
        done = place ? Result<>() : fail(place.error());
    }
    // The first, one in the middle and the last of a queue are stopped. The rest keep their turns.
    Task<> stops_those_that_wait() {
        co_await want(1, 4);
        StopSource stop;
        std::array<Result<>, 3> stopped;
        stopped.fill(fail(Code::busy));
        for (Result<>& each : stopped) {
            co_await calls.spawn(stoppable(*this, 1, stop.token(), each));
            co_await want(1, &each == &stopped.back() ? 0 : 1);
        }
        Result<> already = fail(Code::busy), other = fail(Code::busy);
        stop.request_stop();
        co_await calls.spawn(stoppable(*this, 1, stop.token(), already));
        co_await let_pass();
        EXPECT_THAT(counts(), ElementsAre(Pair(1, 4))) << "all threads of the tenant still hang";
        for (const Result<>& each : stopped) EXPECT_EQ(each, Result<>(fail(Code::cancelled)));
        EXPECT_EQ(already, Result<>(fail(Code::cancelled)));
        // A tenant that only waited is forgotten with its last call.
        co_await want(2, 2);
        co_await want(3, 1);
        co_await want(4, 1);
        StopSource later;
        co_await calls.spawn(stoppable(*this, 5, later.token(), other));
        later.request_stop();
        co_await let_pass();
        EXPECT_EQ(other, Result<>(fail(Code::cancelled)));
        co_await end_all();
        EXPECT_EQ(ended[1], 6U);
    }
    Task<> loses_nobody(uint64_t seed) {
        Random random(seed);
        std::map<uint64_t, size_t> wanted;
        for (int step = 0; step < 100; ++step) {
            const uint64_t tenant = random.below(5), count = random.below(6);
            wanted[tenant] += count;
            co_await want(tenant, count);
            if (on_threads.empty() || random.below(2) == 0) continue;
            co_await end(on_threads.begin() +
                         static_cast<ptrdiff_t>(random.below(on_threads.size())));
        }
        co_await end_all();
        std::erase_if(wanted, [](const auto& each) { return each.second == 0; });
        EXPECT_EQ(ended, wanted) << "seed " << seed;
        ended.clear();
    }
};

TEST_F(SharedThreads, TenantLeavesHalfToOthers) { world.run(leaves_half()); }
TEST_F(SharedThreads, TenantsWithEqualUseTakeTurns) { world.run(takes_turns()); }
// Calls that block for ever leave threads to those that do not.
TEST_F(SharedThreads, HungCallsBlockOnlyTheirTenant) { world.run(goes_on_beside_hung_calls()); }
TEST_F(SharedThreads, StoppedWaiterEndsAtOnce) { world.run(stops_those_that_wait()); }
TEST_F(SharedThreads, EveryWaiterIsServed) {
    for (uint64_t seed = 1; seed <= 50; ++seed) world.run(loses_nobody(seed));
}

// Callers with a bound of their own, and no bound in all.

using namespace std::chrono_literals;
using CallerTurns = Turns<std::string>;

constexpr auto work_time = 11ms;

struct Progress {
    size_t running = 0, most = 0, done = 0, late = 0;
};

Task<> work_in_turn(Reactor& reactor, CallerTurns& turns, Call call, std::string caller,
                    Progress& progress) {
    const auto turn = co_await turns.enter(call, caller);
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

CO_TEST(CallerTurns, BusyCallerDelaysOnlyItself, sim::World, world, 1) {
    Reactor& reactor = world.core();
    CallerTurns turns(reactor, SIZE_MAX, 3);
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

CO_TEST(CallerTurns, WaiterBeginsWhenTurnEnds, sim::World, world, 1) {
    Reactor& reactor = world.core();
    CallerTurns turns(reactor, SIZE_MAX, 1);
    Nursery nursery(reactor, 64);
    Progress all;
    const Time begin = reactor.now();
    for (int i = 0; i < 5; ++i) {
        co_await nursery.spawn(work_in_turn(reactor, turns, {}, "CN=one", all));
    }
    const Call ended{.deadline = begin};
    EXPECT_EQ((co_await turns.enter(ended, "CN=one")).error().code, Code::deadline);
    EXPECT_EQ((co_await turns.enter(ended, "CN=two")).error().code, Code::deadline);
    EXPECT_EQ(turns.running("CN=two"), 0U);
    co_await nursery.join();
    EXPECT_EQ(all.done, 5U);
    EXPECT_EQ(reactor.now() - begin, 5 * work_time) << "each began when the one before it ended";
}

}  // namespace
}  // namespace ros2s
