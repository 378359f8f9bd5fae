// Callers that run the loop of a reactor: which thread runs it, and that no thread waits for a loop
// that no thread runs.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/run_blocking.h"
#include "ros2s/runtime/test_support/made_reactor.h"

namespace ros2s {
namespace {

using namespace std::chrono_literals;

class LeadTest : public testing::Test {
  protected:
    void SetUp() override {
        Report report;
        reactor_ = made_reactor({.callers_lead = true});
        ASSERT_TRUE(reactor_->start(report)) << report.text();
    }
    static Task<std::thread::id> thread_of_loop() { co_return std::this_thread::get_id(); }
    std::thread::id call() {
        return run_blocking(*reactor_, [] { return thread_of_loop(); });
    }
    // The reactor's own thread needs a moment to yield, and longer on a busy machine.
    void call_until_led_by(std::thread::id wanted) {
        std::thread::id led;
        for (int i = 0; i < 10'000 && led != wanted; ++i) led = call();
        EXPECT_EQ(led, wanted);
    }
    Task<> begin(Nursery& nursery, Task<> task) { co_await nursery.spawn(std::move(task)); }
    Task<> attach(Poller& poller) {
        reactor_->attach(poller);
        co_return;
    }
    Task<> detach(Poller& poller) {
        reactor_->detach(poller);
        co_return;
    }
    Task<> wait(Duration duration) { co_await sleep_for(*reactor_, duration); }
    Task<> count_down(std::atomic<int>& left, Duration pause) {
        while (left > 0) {
            co_await sleep_for(*reactor_, pause);
            --left;
        }
    }

    std::unique_ptr<OsReactor> reactor_;
};

TEST_F(LeadTest, CallerRunsTheLoopItself) {
    call_until_led_by(std::this_thread::get_id());
    EXPECT_FALSE(reactor_->is_current());
    // It keeps leading: its next call finds no other leader.
    int own = 0;
    for (int i = 0; i < 100; ++i) own += call() == std::this_thread::get_id() ? 1 : 0;
    EXPECT_GT(own, 0);
}

TEST_F(LeadTest, OwnThreadFinishesWorkOfACaller) {
    call_until_led_by(std::this_thread::get_id());
    std::atomic<int> left = 3;
    Nursery nursery(*reactor_, 1);
    run_blocking(*reactor_, [&] { return begin(nursery, count_down(left, 1ms)); });
    while (left > 0) std::this_thread::sleep_for(1ms);
    run_blocking(*reactor_, [&] { return nursery.join(); });
}

TEST_F(LeadTest, FollowerIsServedByTheLeadingCaller) {
    std::atomic<int> left = 1'000'000;
    std::thread leader([&] { run_blocking(*reactor_, [&] { return count_down(left, 50us); }); });
    while (left > 999'000) std::this_thread::sleep_for(1ms);
    for (int i = 0; i < 100; ++i) EXPECT_NE(call(), std::thread::id());
    left = 1;
    leader.join();
}

TEST_F(LeadTest, FollowerNeverWaitsForAStoppedLoop) {
    for (int round = 0; round < 100; ++round) {
        std::thread soon([&] { run_blocking(*reactor_, [&] { return wait(100us); }); });
        std::thread later([&] { run_blocking(*reactor_, [&] { return wait(2ms); }); });
        run_blocking(*reactor_, [&] { return wait(500us); });
        soon.join();
        later.join();
    }
}

TEST_F(LeadTest, ConcurrentCallsAllComplete) {
    std::array<std::atomic<int>, 6> done{};
    std::vector<std::thread> threads;
    for (auto& mine : done) {
        threads.emplace_back([&] {
            for (int i = 0; i < 2000; ++i) {
                if (i % 500 == 0)
                    std::this_thread::sleep_for(12ms);  // a single caller may lead now
                if (i % 7 == 0) run_blocking(*reactor_, [&] { return wait(10us); });
                mine += call() != std::thread::id() ? 1 : 0;
            }
        });
    }
    for (auto& thread : threads) thread.join();
    for (auto& each : done) EXPECT_EQ(each, 2000);
}

long sleeps_of_this_thread() {
    rusage used{};
    ::getrusage(RUSAGE_THREAD, &used);
    return used.ru_nvcsw;
}
constexpr int brief_calls = 10'000;
TEST_F(LeadTest, BriefCallDoesNotSleepBesideASleeper) {
    std::atomic<bool> ends = false;
    std::thread sleeper([&] {
        while (!ends) run_blocking(*reactor_, [&] { return wait(1ms); });
    });
    const long before = sleeps_of_this_thread();
    for (int i = 0; i < brief_calls; ++i) call();
    EXPECT_LT(sleeps_of_this_thread() - before, brief_calls / 4);
    ends = true;
    sleeper.join();
}
TEST_F(LeadTest, BriefCallsOfTwoThreadsDoNotSleep) {
    std::array<long, 2> slept{};
    std::array<std::thread, 2> threads;
    for (size_t i = 0; i < threads.size(); ++i) {
        threads[i] = std::thread([&, i] {
            const long before = sleeps_of_this_thread();
            for (int each = 0; each < brief_calls; ++each) call();
            slept[i] = sleeps_of_this_thread() - before;
        });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_LT(slept[0] + slept[1], brief_calls);
}

// Not by run_blocking(), which may expect that its calls end in one turn.
TEST_F(LeadTest, CallerLeadsAgainAfterAnotherEnds) {
    std::atomic<bool> leads = false;
    std::thread other([&] {
        const Lead lead(*reactor_);
        leads = true;
        std::this_thread::sleep_for(10ms);
    });
    while (!leads) std::this_thread::sleep_for(1ms);
    {
        const Follow follow(*reactor_);
        other.join();
        std::this_thread::sleep_for(10ms);  // the own thread leads now, for this one
    }
    const auto leads_itself = [&] {
        if (const Lead lead(*reactor_); lead) return true;
        const Follow follow(*reactor_);
        std::this_thread::sleep_for(1ms);
        return false;
    };
    bool led = false;
    for (int i = 0; i < 2000 && !led; ++i) led = leads_itself();
    EXPECT_TRUE(led);
}

struct Bell final : Poller {
    std::atomic<int> rung = 0;
    std::atomic<int> heard = 0;
    bool poll() noexcept override {
        const int now = rung.load();
        const bool is_new = now != heard.load();
        heard = now;
        return is_new;
    }
    bool prepare_sleep() noexcept override { return rung.load() == heard.load(); }
};
TEST_F(LeadTest, AdvanceRunsATurnOnTheCallingThread) {
    Bell bell;
    run_blocking(*reactor_, [&] { return attach(bell); });
    int at_once = 0;
    for (int i = 1; i <= 1000; ++i) {
        call();
        bell.rung = i;
        reactor_->advance();
        at_once += bell.heard == i ? 1 : 0;
    }
    EXPECT_GT(at_once, 0);
    // Also when another thread has to hear it.
    for (int i = 1001; i <= 1020; ++i) {
        std::this_thread::sleep_for(2ms);
        bell.rung = i;
        reactor_->advance();
        while (bell.heard != i) std::this_thread::sleep_for(100us);
    }
    run_blocking(*reactor_, [&] { return detach(bell); });
}

// Begins at once, on the caller's stack.
struct Eager {
    struct promise_type {
        Eager get_return_object() { return {}; }
        std::suspend_never initial_suspend() noexcept { return {}; }
        std::suspend_never final_suspend() noexcept { return {}; }
        void return_void() {}
        void unhandled_exception() { std::abort(); }
    };
};
// Submits an operation while it polls, as a queue of requests does for a read of cached metadata.
struct SubmittingBell final : Poller {
    SubmittingBell(Reactor& to, int descriptor) : reactor(to), fd(descriptor) {}
    bool poll() noexcept override {
        if (!rung.exchange(false)) return false;
        read();
        return true;
    }
    bool prepare_sleep() noexcept override { return !rung; }
    Eager read() {
        EXPECT_EQ(co_await reactor.ring()->read(fd, block.bytes(), 0), block_bytes);
        ++done;
    }

    Reactor& reactor;
    int fd;
    AlignedBuffer block{block_bytes};
    std::atomic<bool> rung = false;
    std::atomic<int> done = 0;
};
// No other thread runs the loop while a caller uses it again and again.
TEST_F(LeadTest, AdvanceSubmitsOperationsOfAPoller) {
    char path[] = "/var/tmp/ros2store-test-XXXXXX";
    const int fd = mkostemp(path, O_CLOEXEC);
    ASSERT_GE(fd, 0);
    unlink(path);
    ASSERT_EQ(::ftruncate(fd, block_bytes), 0);
    SubmittingBell bell(*reactor_, fd);
    run_blocking(*reactor_, [&] { return attach(bell); });
    const auto begun = std::chrono::steady_clock::now();
    for (int i = 1; i <= 20; ++i) {
        call();
        bell.rung = true;
        while (bell.done != i && std::chrono::steady_clock::now() - begun < 60s) {
            reactor_->advance();
        }
        ASSERT_EQ(bell.done, i);
    }
    // Some milliseconds; without it 3 s, until the own thread took over.
    EXPECT_LT(std::chrono::steady_clock::now() - begun, 1s);
    run_blocking(*reactor_, [&] { return detach(bell); });
    ::close(fd);
}

// The kernel withdraws what a thread has submitted when the thread ends: polls, and what its
// io_uring workers have not begun, such as flushes.
struct EndedThreads : LeadTest {
    Task<> poll(int descriptor, std::atomic<int>& seen) {
        const auto events = co_await reactor_->ring()->poll(descriptor, POLLIN);
        seen = events ? static_cast<int>(*events) : -1;
    }
    Task<> write_and_flush(int fd, std::atomic<int>& failed) {
        const AlignedBuffer block(block_bytes);
        if (!co_await reactor_->ring()->write(fd, block.bytes(), 0)) ++failed;
        if (!co_await reactor_->ring()->fdatasync(fd)) ++failed;
    }
    // On a thread that runs the loop for it and ends.
    void begin_on_a_thread(Nursery& nursery, Task<> task) {
        std::thread([&] {
            run_blocking(*reactor_, [&] { return begin(nursery, std::move(task)); });
        }).join();
    }
};
TEST_F(EndedThreads, PollOutlivesTheArmingThread) {
    for (int i = 0; i < 20; ++i) {
        int ends[2];
        ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
        std::atomic<int> seen = 0;
        Nursery nursery(*reactor_, 1);
        begin_on_a_thread(nursery, poll(ends[0], seen));
        ASSERT_EQ(::write(ends[1], "x", 1), 1);
        run_blocking(*reactor_, [&] { return nursery.join(); });
        EXPECT_EQ(seen, POLLIN);
        ::close(ends[0]);
        ::close(ends[1]);
    }
}
TEST_F(EndedThreads, FlushOutlivesTheSubmittingThread) {
    char path[] = "/var/tmp/ros2store-test-XXXXXX";
    const int fd = mkostemp(path, O_CLOEXEC);
    ASSERT_GE(fd, 0);
    unlink(path);
    std::atomic<int> failed = 0;
    for (int i = 0; i < 25; ++i) {
        Nursery nursery(*reactor_, 8);
        for (int j = 0; j < 8; ++j) begin_on_a_thread(nursery, write_and_flush(fd, failed));
        run_blocking(*reactor_, [&] { return nursery.join(); });
    }
    EXPECT_EQ(failed, 0);
    ::close(fd);
}

}  // namespace
}  // namespace ros2s
