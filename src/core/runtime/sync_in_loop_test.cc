// An fdatasync: when the loop's thread executes it itself, that nobody else waits, and that the
// kernel's thread gets a processor if the kernel executes it.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <thread>

#include "kernel_ring.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/run_blocking.h"
#include "ros2s/runtime/test_support/made_reactor.h"

namespace {

std::atomic<int> syncs_here = 0;  // by threads of this program, not by the kernel
std::atomic<int> processor_yields = 0;
std::chrono::nanoseconds sync_takes{};
int sync_fails_with = 0;

}  // namespace

// In place of the C library's.
extern "C" int sched_yield() noexcept {
    ++processor_yields;
    return static_cast<int>(::syscall(SYS_sched_yield));
}
extern "C" int fdatasync(int fd) {
    ++syncs_here;
    std::this_thread::sleep_for(sync_takes);
    errno = sync_fails_with;
    return sync_fails_with != 0 ? -1 : static_cast<int>(::syscall(SYS_fdatasync, fd));
}

namespace ros2s {
namespace {

using namespace std::chrono_literals;

class SyncedFile : public testing::Test {
  protected:
    SyncedFile() : file_(std::tmpfile()) {
        sync_takes = {};
        sync_fails_with = 0;
        (void)fdatasync(fd());  // the first one may write the file system's journal
    }
    ~SyncedFile() override { std::fclose(file_); }
    [[nodiscard]] int fd() const { return ::fileno(file_); }
    // A busy machine may stop a thread for as long as a slow device would.
    template <class Try>
    static bool soon(Try is_done) {
        bool done = false;
        for (int i = 0; i < 5000 && !done; ++i) done = is_done();
        return done;
    }
    std::FILE* file_;
};

// ---- the ring ---------------------------------------------------------------------------------

class SyncOfRing : public SyncedFile {
  protected:
    void SetUp() override {
        waker_ = Waker::create(report_).value();
        auto made = make_uring_ring(ready_, *waker_, {.sync_in_loop = true}, why_);
        if (!made) GTEST_SKIP() << why_;
        ring_ = std::move(*made);
        ring_->enter_thread();
    }
    [[nodiscard]] Ring::Operation sync() const {
        return {.opcode = Ring::Opcode::fdatasync, .fd = fd()};
    }
    void finish_all_of_turn() {
        ring_->flush();
        ring_->sync_elsewhere();
        finish_all();
    }
    bool sync_here() {
        const bool keeps = ring_->keeps_sync();
        if (keeps) ring_->sync_here();
        return keeps;
    }
    void finish_all() {
        while (ring_->in_flight() > 0) ring_->reap({}, false);
    }
    bool is_executed_here() {
        const int before = syncs_here;
        Ring::Operation operation = sync();
        ring_->submit(operation);
        ring_->flush();
        const bool is_here = sync_here();
        EXPECT_EQ(ring_->in_flight() == 0, is_here);
        finish_all();
        EXPECT_EQ(operation.result, 0);
        EXPECT_EQ(syncs_here != before, is_here);
        return is_here;
    }

    Report report_;
    ReadyQueue ready_;
    std::unique_ptr<Waker> waker_;
    std::string why_;
    std::unique_ptr<KernelRing> ring_;
};

TEST_F(SyncOfRing, SyncRunsInTheLoopOrInTheKernel) {
    EXPECT_TRUE(soon([this] { return is_executed_here(); }));
    for (const bool goes_on_working : {false, true}) {
        const int before = syncs_here;
        Ring::Operation kept = sync();
        ring_->submit(kept);
        ring_->flush();
        goes_on_working ? ring_->flush() : ring_->sync_elsewhere();
        EXPECT_FALSE(ring_->keeps_sync());
        finish_all();
        EXPECT_EQ(kept.result, 0);
        EXPECT_EQ(syncs_here, before);
    }
}

TEST_F(SyncOfRing, LoopYieldsOnceToTheKernelThread) {
    Ring::Operation read{.opcode = Ring::Opcode::read, .fd = fd()}, first = sync(), second = sync();
    const int before = processor_yields;
    ring_->submit(read);
    ring_->flush();
    EXPECT_EQ(processor_yields, before) << "a read needs no thread";
    ring_->submit(first);
    ring_->submit(second);
    finish_all_of_turn();
    EXPECT_EQ(processor_yields, before + 1);
    ring_->submit(read);
    finish_all_of_turn();
    EXPECT_EQ(processor_yields, before + 1);
}

TEST_F(SyncOfRing, ShortSyncRunsAtOnce) {
    const auto is_at_once = [this] {
        Ring::Operation read{.opcode = Ring::Opcode::read, .fd = fd()}, operation = sync();
        operation.is_short = true;
        ring_->submit(read);
        const int before = syncs_here;
        ring_->submit(operation);
        const bool is_here = syncs_here != before;
        finish_all_of_turn();
        EXPECT_EQ(operation.result, is_here ? -sync_fails_with : 0);
        EXPECT_LE(syncs_here, before + 1) << "a failed one is not repeated";
        return is_here;
    };
    EXPECT_TRUE(soon(is_at_once));
    sync_fails_with = EIO;
    EXPECT_TRUE(soon(is_at_once));
    sync_fails_with = 0;
    sync_takes = 2ms;
    int here = 0;
    for (int i = 0; i < 20; ++i) here += is_at_once() ? 1 : 0;
    EXPECT_LT(here, 8) << "it is not short";
}

TEST_F(SyncOfRing, TransfersDoNotWaitForASync) {
    std::array<char, 8> bytes{};
    for (const bool sync_first : {true, false}) {
        Ring::Operation first = sync(), second = sync();
        Ring::Operation read{.opcode = Ring::Opcode::read,
                             .fd = fd(),
                             .address = bytes.data(),
                             .length = bytes.size()};
        ring_->submit(sync_first ? first : read);
        ring_->submit(sync_first ? read : first);
        ring_->submit(second);  // of another device
        ring_->flush();
        EXPECT_FALSE(ring_->keeps_sync());
        finish_all();
        for (const auto* each : {&first, &second, &read}) EXPECT_EQ(each->result, 0);
    }
    EXPECT_TRUE(soon([this] { return is_executed_here(); })) << "once they have ended";
}

TEST_F(SyncOfRing, SlowDeviceIsLeftToTheKernel) {
    sync_takes = 2ms;
    int here = 0;
    for (int i = 0; i < 100; ++i) here += is_executed_here() ? 1 : 0;
    EXPECT_LT(here, 10);
    EXPECT_GT(here, 1) << "it may have become quick";
    sync_takes = {};
    int in_a_row = 0;
    EXPECT_TRUE(soon([&] {
        in_a_row = is_executed_here() ? in_a_row + 1 : 0;
        return in_a_row == 3;
    }));
    // What was slow before the quick ones is forgotten.
    sync_takes = 2ms;
    here = 0;
    for (int i = 0; i < 8; ++i) here += is_executed_here() ? 1 : 0;
    EXPECT_GE(here, 2);
}

TEST_F(SyncOfRing, SignalIsNotADeviceError) {
    for (const int error : {EINTR, EIO}) {
        Ring::Operation operation = sync();
        EXPECT_TRUE(soon([&] {
            finish_all();
            sync_fails_with = error;
            operation = sync();
            ring_->submit(operation);
            ring_->flush();
            return sync_here();
        }));
        finish_all();
        EXPECT_EQ(operation.result, error == EINTR ? 0 : -EIO);
    }
}

// ---- the loop ---------------------------------------------------------------------------------

class SyncInLoop : public SyncedFile {
  protected:
    void SetUp() override {
        Report report;
        reactor_ = made_reactor({.callers_lead = true, .sync_in_loop = true});
        if (reactor_->ring()->kind() != Ring::Kind::io_uring) GTEST_SKIP();
        ASSERT_TRUE(reactor_->start(report)) << report.text();
    }
    Task<> sync() { EXPECT_TRUE(co_await reactor_->ring()->fdatasync(fd())); }
    Task<> wait(Duration duration) { (void)co_await sleep_for(*reactor_, duration); }
    Task<> begin(Nursery& nursery, Task<> task) { co_await nursery.spawn(std::move(task)); }
    // How many of them this thread, or another one of the program, executes.
    int executed_here(int calls) {
        const int before = syncs_here;
        for (int i = 0; i < calls; ++i) run_blocking(*reactor_, [this] { return sync(); });
        return syncs_here - before;
    }

    std::unique_ptr<OsReactor> reactor_;
};

TEST_F(SyncInLoop, SoleCallerRunsTheSyncItself) {
    EXPECT_TRUE(soon([this] { return executed_here(1) == 1; }));
}

TEST_F(SyncInLoop, OtherCallersDoNotWait) {
    std::atomic<bool> ends = false;
    std::atomic<int> calls = 0;
    std::thread other([&] {
        for (; !ends; ++calls) run_blocking(*reactor_, [this] { return wait(100us); });
    });
    while (calls < 2) std::this_thread::sleep_for(100us);
    EXPECT_TRUE(soon([this] { return executed_here(100) < 20; }));
    ends = true;
    other.join();
}

// It brings work from time to time, and waits in a poll of its own.
TEST_F(SyncInLoop, ThreadPollingElsewhereIsDetected) {
    EXPECT_TRUE(soon([this] { return executed_here(1) == 1; }));
    std::atomic<bool> ends = false;
    std::atomic<int> calls = 0;
    std::thread other([&] {
        for (; !ends; ++calls) {
            reactor_->announce();
            std::this_thread::sleep_for(100us);
        }
    });
    while (calls < 2) std::this_thread::sleep_for(100us);
    EXPECT_TRUE(soon([this] { return executed_here(100) < 50; }));
    ends = true;
    other.join();
}

TEST_F(SyncInLoop, EndedCallDoesNotWait) {
    EXPECT_TRUE(soon([this] { return executed_here(1) == 1; }));
    for (int i = 0; i < 20; ++i) {
        const int before = syncs_here;
        Nursery nursery(*reactor_, 1);
        run_blocking(*reactor_, [&] { return begin(nursery, sync()); });
        EXPECT_EQ(syncs_here, before);
        run_blocking(*reactor_, [&] { return nursery.join(); });
        EXPECT_EQ(syncs_here, before);
    }
}

struct Begun {
    struct promise_type {
        Begun get_return_object() { return {}; }
        std::suspend_never initial_suspend() noexcept { return {}; }
        std::suspend_never final_suspend() noexcept { return {}; }
        void return_void() {}
        void unhandled_exception() {}
    };
};
Begun sync_at_once(Ring& ring, int fd, bool& done) {
    EXPECT_TRUE(co_await ring.fdatasync(fd));
    done = true;
}
TEST_F(SyncInLoop, CallerWithTimeLimitLeavesSyncToKernel) {
    EXPECT_TRUE(soon([this] { return executed_here(1) == 1; }));
    std::optional<Lead> lead;
    ASSERT_TRUE(soon([&] { return static_cast<bool>(lead.emplace(*reactor_)); }));
    const int before = syncs_here;
    bool done = false;
    sync_at_once(*reactor_->ring(), fd(), done);
    for (int i = 0; i < 100'000 && !done; ++i) lead->turn(reactor_->now() + 1s);
    EXPECT_TRUE(done);
    EXPECT_EQ(syncs_here, before);
}

}  // namespace
}  // namespace ros2s
