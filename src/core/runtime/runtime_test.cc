// What coroutines may rely on, on every reactor: the simulated one and real ones on either ring.
#include <gtest/gtest.h>

#include <map>

#include "ros2s/runtime/call.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/sim/world.h"
#include "ros2s/runtime/sync.h"
#include "ros2s/runtime/test_support/made_reactor.h"
#include "ros2s/runtime/thread_pool.h"
#include "ros2s/runtime/trace.h"

namespace ros2s {
namespace {

using namespace std::chrono_literals;

// Two cores, a blocking pool, and a function that runs a task on the first core.
class SimMachine {
  public:
    Reactor& core() { return world_.core(0); }
    Reactor& other_core() { return world_.core(1); }
    BlockingPool& pool() { return world_.blocking(); }
    template <class T>
    T run(Task<T> task) {
        return world_.run(std::move(task));
    }

  private:
    sim::World world_{1, 2};
};
template <RingChoice choice>
class OsMachine {
  public:
    OsMachine() {
        Report report;
        EXPECT_TRUE(other_->start(report)) << report.text();
    }
    Reactor& core() { return *core_; }
    Reactor& other_core() { return *other_; }
    BlockingPool& pool() { return pool_; }
    template <class T>
    T run(Task<T> task) {
        return core_->run(std::move(task));
    }

  private:
    std::unique_ptr<OsReactor> core_ = made_reactor({.ring = choice});
    std::unique_ptr<OsReactor> other_ = made_reactor({.ring = choice});
    ThreadPool pool_{2};
};

template <class Machine>
class Runtime : public testing::Test {
  protected:
    Machine machine_;
};
using Machines =
    testing::Types<SimMachine, OsMachine<RingChoice::io_uring>, OsMachine<RingChoice::threads>>;
struct MachineNames {
    template <class Machine>
    static std::string GetName(int) {
        if (std::is_same_v<Machine, SimMachine>) return "Sim";
        return std::is_same_v<Machine, OsMachine<RingChoice::threads>> ? "Threads" : "Uring";
    }
};
TYPED_TEST_SUITE(Runtime, Machines, MachineNames);

Task<int> one() { co_return 1; }
Task<int> sum_of(int n) {
    int sum = 0;
    for (int i = 0; i < n; ++i) sum += co_await one();
    co_return sum;
}
TYPED_TEST(Runtime, SynchronousCompletionsDoNotGrowTheStack) {
    EXPECT_EQ(this->machine_.run(sum_of(1'000'000)), 1'000'000);
}

Task<int> yields(Reactor& reactor, int n) {
    int sum = 0;
    for (int i = 0; i < n; ++i) {
        co_await yield(reactor);
        ++sum;
    }
    co_return sum;
}
TYPED_TEST(Runtime, RepeatedYieldsComplete) {
    EXPECT_EQ(this->machine_.run(yields(this->machine_.core(), 100'000)), 100'000);
}

Task<> note_turns(Reactor& reactor, std::vector<int>& order, int who) {
    for (int i = 0; i < 3; ++i) {
        order.push_back(who);
        co_await yield(reactor);
    }
}
Task<> take_turns(Reactor& reactor, std::vector<int>& order) {
    Nursery nursery(reactor, 3);
    for (int who = 0; who < 3; ++who) co_await nursery.spawn(note_turns(reactor, order, who));
    co_await nursery.join();
}
TYPED_TEST(Runtime, PostedHandlesResumeInOrder) {
    std::vector<int> order;
    this->machine_.run(take_turns(this->machine_.core(), order));
    EXPECT_EQ(order, (std::vector{0, 1, 2, 0, 1, 2, 0, 1, 2}));
}

Task<> note(Reactor& reactor, std::vector<int>& order, int n, Duration delay) {
    co_await sleep_for(reactor, delay);
    order.push_back(n);
}
Task<> sleepers(Reactor& reactor, std::vector<int>& order) {
    Nursery nursery(reactor, 2);
    co_await nursery.spawn(note(reactor, order, 3, 400ms));
    co_await nursery.spawn(note(reactor, order, 1, 10ms));
    co_await nursery.spawn(note(reactor, order, 2, 20ms));  // begins when the second ends
    EXPECT_EQ(nursery.running(), 2U);
    co_await nursery.join();
}
TYPED_TEST(Runtime, NurseryLimitsItsChildren) {
    std::vector<int> order;
    const Time before = this->machine_.core().now();
    this->machine_.run(sleepers(this->machine_.core(), order));
    EXPECT_EQ(order, (std::vector{1, 2, 3}));
    EXPECT_GE(this->machine_.core().now() - before, 60ms);
}

Task<> note_at(Reactor& reactor, std::vector<int>& order, int n, Time at) {
    co_await sleep_until(reactor, at);
    order.push_back(n);
}
Task<> note_unless_stopped(Reactor& reactor, std::vector<int>& order, Time at, StopSource& stop) {
    if (co_await sleep_until(reactor, at, stop.token())) order.push_back(-1);
}
// Arms timers in a shuffled order, two for each time, and disarms some of them again.
Task<bool> many_timers(Reactor& reactor, std::vector<int>& order, std::vector<int>& expected) {
    // Far enough away that all are armed before the first is due.
    const Time base = reactor.now() + 100ms;
    std::map<std::pair<int, int>, int> due;  // by time, then by order of arming
    Nursery nursery(reactor, 1000);
    StopSource stop;
    for (int i = 0; i < 500; ++i) {
        const int n = i * 311 % 500;
        due[{n / 2, i}] = n;
        co_await nursery.spawn(note_at(reactor, order, n, base + n / 2 * 20us));
        if (i % 3 != 0) continue;
        co_await nursery.spawn(note_unless_stopped(reactor, order, base + n / 2 * 20us, stop));
    }
    const bool armed_in_time = reactor.now() < base;
    stop.request_stop();
    co_await nursery.join();
    for (const auto& [when, n] : due) expected.push_back(n);
    co_return armed_in_time;
}
TYPED_TEST(Runtime, TimersFireInOrder) {
    std::vector<int> order;
    std::vector<int> expected;
    if (!this->machine_.run(many_timers(this->machine_.core(), order, expected))) {
        GTEST_SKIP() << "the machine took 100 ms to arm 700 timers";
    }
    EXPECT_EQ(order, expected);
}

Task<> stop_after(Reactor& reactor, StopSource& source, Duration delay) {
    co_await sleep_for(reactor, delay);
    source.request_stop();
}
Task<bool> stopped_sleep(Reactor& reactor) {
    StopSource source;
    Nursery nursery(reactor, 1);
    co_await nursery.spawn(stop_after(reactor, source, 5ms));
    const bool slept = co_await sleep_for(reactor, std::chrono::hours(1), source.token());
    co_await nursery.join();
    const bool slept_again = co_await sleep_for(reactor, std::chrono::hours(1), source.token());
    co_return slept || slept_again;
}
TYPED_TEST(Runtime, StoppedSleepEnds) {
    EXPECT_FALSE(this->machine_.run(stopped_sleep(this->machine_.core())));
}

Task<Code> work_until(Reactor& reactor, Call call) {
    for (;;) {
        const auto still = call.check(reactor);
        if (!still) co_return still.error().code;
        co_await sleep_for(reactor, 1ms, call.stop);
    }
}
Task<> deadline_and_stop(Reactor& reactor) {
    EXPECT_EQ(co_await work_until(reactor, {.deadline = reactor.now() + 10ms}), Code::deadline);
    StopSource source;
    Nursery nursery(reactor, 1);
    co_await nursery.spawn(stop_after(reactor, source, 3ms));
    EXPECT_EQ(co_await work_until(reactor, {.stop = source.token()}), Code::cancelled);
    co_await nursery.join();
}
Task<bool> done(Task<> task) {
    co_await std::move(task);
    co_return true;
}
TYPED_TEST(Runtime, CallEndsAtItsDeadlineOrWhenStopped) {
    EXPECT_TRUE(this->machine_.run(done(deadline_and_stop(this->machine_.core()))));
}

Task<> hold_one(Reactor& reactor, Semaphore& semaphore, int& inside, int& most) {
    co_await semaphore.acquire();
    const SemaphoreHold hold(semaphore);
    most = std::max(most, ++inside);
    co_await sleep_for(reactor, 100us);
    --inside;
}
Task<int> contended_semaphore(Reactor& reactor) {
    Semaphore semaphore(reactor, 3);
    Nursery nursery(reactor, 50);
    int inside = 0;
    int most = 0;
    for (int i = 0; i < 50; ++i) {
        co_await nursery.spawn(hold_one(reactor, semaphore, inside, most));
    }
    co_await nursery.join();
    EXPECT_EQ(semaphore.available(), 3U);
    co_return most;
}
TYPED_TEST(Runtime, SemaphoreAdmitsUpToItsCount) {
    EXPECT_EQ(this->machine_.run(contended_semaphore(this->machine_.core())), 3);
}

Task<> take_in_time(Semaphore& semaphore, Call call, std::vector<Result<>>& results) {
    results.push_back(co_await semaphore.acquire_for(call));
}
Task<> semaphore_with_deadlines(Reactor& reactor) {
    Semaphore semaphore(reactor, 1);
    Nursery nursery(reactor, 8);
    StopSource stop;
    std::vector<Result<>> first, late, stopped, patient;
    const Call ended{.deadline = reactor.now()};
    co_await nursery.spawn(take_in_time(semaphore, ended, first));
    EXPECT_EQ(first, std::vector{Result<>{}}) << "it need not wait";
    const Call soon{.deadline = reactor.now() + 1ms};
    co_await nursery.spawn(take_in_time(semaphore, {}, patient));
    co_await nursery.spawn(take_in_time(semaphore, {.stop = stop.token()}, stopped));
    co_await nursery.spawn(take_in_time(semaphore, {}, patient));
    co_await nursery.spawn(take_in_time(semaphore, soon, late));
    stop.request_stop();
    co_await nursery.spawn(take_in_time(semaphore, {.stop = stop.token()}, stopped));
    co_await sleep_until(reactor, soon.deadline + 1ms);
    EXPECT_EQ(late, std::vector{Result<>(fail(Code::deadline))});
    EXPECT_EQ(stopped, std::vector(2, Result<>(fail(Code::cancelled))));
    EXPECT_TRUE(patient.empty());
    semaphore.release();
    semaphore.release();
    co_await nursery.join();
    EXPECT_EQ(patient.size(), 2U);
    EXPECT_EQ(semaphore.available(), 0U);
    EXPECT_FALSE(semaphore.try_acquire());
    semaphore.release();
    EXPECT_TRUE(semaphore.try_acquire()) << "the queue is empty";
}
TYPED_TEST(Runtime, SemaphoreWaiterLeavesWhenItsCallEnds) {
    EXPECT_TRUE(this->machine_.run(done(semaphore_with_deadlines(this->machine_.core()))));
}

Task<bool> hops(Reactor& home, Reactor& other) {
    co_await hop(other);
    const bool there = other.is_current() && !home.is_current();
    co_await hop(home);
    const bool back = home.is_current();
    co_return there&& back;
}
TYPED_TEST(Runtime, HopChangesTheCore) {
    EXPECT_TRUE(this->machine_.run(hops(this->machine_.core(), this->machine_.other_core())));
}

Task<int> ping(Reactor& home, Reactor& other, int n) {
    int sum = 0;
    for (int i = 0; i < n; ++i) sum += co_await on(other, home, one());
    co_return sum;
}
TYPED_TEST(Runtime, CallOnAnotherCoreReturnsItsResult) {
    EXPECT_EQ(this->machine_.run(ping(this->machine_.core(), this->machine_.other_core(), 2000)),
              2000);
}

Task<int> blocking(Reactor& home, BlockingPool& pool) {
    int sum = 0;
    for (int i = 0; i < 100; ++i) sum += co_await pool.run(home, [i] { return i; });
    EXPECT_TRUE(home.is_current());
    co_return sum;
}
TYPED_TEST(Runtime, BlockingPoolReturnsTheResultOfTheJob) {
    EXPECT_EQ(this->machine_.run(blocking(this->machine_.core(), this->machine_.pool())), 4950);
}

Task<size_t> traced(Reactor& reactor) {
    Trace trace;
    {
        const Span outer(&trace, reactor, "outer");
        const Span inner(&trace, reactor, "inner");
        co_await sleep_for(reactor, 1ms);
    }
    EXPECT_EQ(trace.steps().at(1).depth, 1);
    EXPECT_GE(trace.steps().at(0).end - trace.steps().at(0).begin, 1ms);
    co_return trace.steps().size();
}
TYPED_TEST(Runtime, SpanMeasuresItsScope) {
    EXPECT_EQ(this->machine_.run(traced(this->machine_.core())), 2U);
}

TEST(SimWorld, SleepAdvancesVirtualTime) {
    sim::World world(1);
    std::vector<int> order;
    world.run(note(world.core(), order, 1, std::chrono::hours(3)));
    EXPECT_EQ(world.now().time_since_epoch(), std::chrono::hours(3));
}

#ifndef ROS2S_SANITIZED
TEST(FramePool, FreedFrameIsReused) {
    void* first = allocate_frame(200);
    free_frame(first, 200);
    void* second = allocate_frame(250);  // the same class of sizes
    EXPECT_EQ(first, second);
    free_frame(second, 250);
    void* large = allocate_frame(4096 + 300);  // a message with a block in it
    free_frame(large, 4096 + 300);
    void* again = allocate_frame(5000);
    EXPECT_EQ(large, again);
    free_frame(again, 5000);
}
TEST(FramePool, PooledBytesAreBounded) {
    std::vector<void*> frames;
    for (int i = 0; i < 50'000; ++i) frames.push_back(allocate_frame(1000));
    for (void* frame : frames) free_frame(frame, 1000);
    EXPECT_LE(pooled_frame_bytes(), size_t{4} << 20);
}
TEST(FramePool, FullSizeClassLeavesRoomForOthers) {
    std::thread([] {
        std::vector<void*> frames;
        for (int i = 0; i < 5000; ++i) frames.push_back(allocate_frame(1000));
        void* const small = allocate_frame(250);
        for (void* frame : frames) free_frame(frame, 1000);
        const size_t full = pooled_frame_bytes();
        free_frame(small, 250);
        EXPECT_GT(pooled_frame_bytes(), full);
    }).join();
}
TEST(FramePool, LargeFramesOfManyRequestsArePooled) {
    constexpr size_t count = size_t{3} * 256;
    // On a thread of its own, whose pool is empty.
    std::thread([] {
        std::vector<void*> frames;
        for (size_t i = 0; i < count; ++i) frames.push_back(allocate_frame(4096));
        for (void* frame : frames) free_frame(frame, 4096);
        EXPECT_GE(pooled_frame_bytes(), count * 4096);
    }).join();
}
#endif

}  // namespace
}  // namespace ros2s
