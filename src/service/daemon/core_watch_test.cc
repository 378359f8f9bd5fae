#include "core_watch.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "ros2s/runtime/run_blocking.h"
#include "ros2s/runtime/test_support/made_reactor.h"
#include "ros2s/runtime/thread.h"

namespace ros2s::daemon {
namespace {

using namespace std::chrono_literals;

Task<> do_nothing() { co_return; }

Task<> wait_a_moment(Reactor& reactor) { co_await sleep_for(reactor, 1ms); }

// The core does not run until the pipe has a byte.
Task<> read_a_byte(int descriptor) {
    char byte = 0;
    EXPECT_EQ(::read(descriptor, &byte, 1), 1);
    co_return;
}

class WatchedCores : public testing::Test {
  protected:
    void SetUp() override {
        Report report;
        for (auto& reactor : reactors_) {
            reactor = made_reactor();
        }
        ASSERT_TRUE(reactors_[0]->start(report) && reactors_[1]->start(report)) << report.text();
    }
    [[nodiscard]] CoreWatch watch() const {
        return CoreWatch({reactors_[0].get(), reactors_[1].get()});
    }
    // Asks, and waits until all cores except a stuck one have slept and worked again: a core counts
    // a step only after it.
    std::optional<size_t> ask(CoreWatch& watch, std::optional<size_t> stuck = {}) const {
        uint64_t before[2];
        for (size_t core : {0, 1}) before[core] = slept(core);
        const auto answer = watch.stuck();
        OsReactor& own = *reactors_[2];
        for (size_t core : {0, 1}) {
            if (core == stuck) continue;
            for (int i = 0; i < 20'000 && slept(core) == before[core]; ++i) {
                own.run(wait_a_moment(own));
            }
            EXPECT_NE(slept(core), before[core]) << "it was woken";
            for (int i = 0; i < 2; ++i) run_blocking(*reactors_[core], do_nothing);
        }
        return answer;
    }
    [[nodiscard]] uint64_t slept(size_t core) const {
        return reactors_[core]->counters().sleeps.value();
    }
    // The third is that of the calling thread.
    std::unique_ptr<OsReactor> reactors_[3];
};

TEST_F(WatchedCores, SleepingCoresCountAsRunning) {
    for (int core : {0, 1}) run_blocking(*reactors_[core], do_nothing);
    CoreWatch cores = watch();
    const uint64_t work = cores.work();
    for (int i = 0; i < 5; ++i) EXPECT_EQ(ask(cores), std::nullopt);
    EXPECT_GE(cores.work(), work + 10) << "of both";
}

TEST_F(WatchedCores, StuckCoreIsFound) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    CoreWatch cores = watch();
    auto user = start_thread(
        "user", [&] { run_blocking(*reactors_[1], [&] { return read_a_byte(ends[0]); }); });
    ASSERT_TRUE(user);
    // Until the core has come to the read.
    std::optional<size_t> stuck;
    for (int i = 0; i < 20'000 && !stuck; ++i) {
        stuck = ask(cores, 1);
        reactors_[2]->run(wait_a_moment(*reactors_[2]));
    }
    EXPECT_EQ(stuck, 1u);
    EXPECT_EQ(::write(ends[1], "x", 1), 1);
    user->join();
    for (int i = 0; i < 2; ++i) run_blocking(*reactors_[1], do_nothing);
    EXPECT_EQ(ask(cores), std::nullopt);
    EXPECT_EQ(ask(cores), std::nullopt);
    ::close(ends[0]);
    ::close(ends[1]);
}

}  // namespace
}  // namespace ros2s::daemon
