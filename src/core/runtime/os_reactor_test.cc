#include "ros2s/runtime/os_reactor.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <optional>
#include <thread>

#include "ros2s/runtime/foreign_posts.h"
#include "ros2s/runtime/fork.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/run_blocking.h"
#include "ros2s/runtime/test_support/forwarding_reactor.h"
#include "ros2s/runtime/thread_pool.h"

namespace ros2s {
namespace {

using namespace std::chrono_literals;

std::unique_ptr<OsReactor> make(OsReactorOptions options = {}) {
    Report report;
    auto made = OsReactor::create(std::move(options), report);
    EXPECT_TRUE(made) << report.text();
    return std::move(*made);
}
std::unique_ptr<OsReactor> started(OsReactorOptions options = {}) {
    auto reactor = make(std::move(options));
    Report report;
    EXPECT_TRUE(reactor->start(report)) << report.text();
    return reactor;
}

// Properties of both back ends, with and without callers that run the loop.
struct Kind {
    const char* name;
    RingChoice ring;
    bool callers_lead = false;
};
class OsReactorRings : public testing::TestWithParam<Kind> {
  protected:
    OsReactorOptions options() const {
        return {.ring = GetParam().ring, .callers_lead = GetParam().callers_lead};
    }
};
INSTANTIATE_TEST_SUITE_P(Kinds, OsReactorRings,
                         testing::Values(Kind{"io_uring", RingChoice::io_uring},
                                         Kind{"threads", RingChoice::threads},
                                         Kind{"io_uring_callers_lead", RingChoice::io_uring, true},
                                         Kind{"threads_callers_lead", RingChoice::threads, true}),
                         [](const auto& tested) { return tested.param.name; });

struct TemporaryFile {
    int fd = -1;
    TemporaryFile() {
        char path[] = "/tmp/ros2store-test-XXXXXX";
        fd = mkostemp(path, O_CLOEXEC);
        unlink(path);
    }
    ~TemporaryFile() { ::close(fd); }
};

Task<int> seven() { co_return 7; }

TEST_P(OsReactorRings, ChosenRingIsReported) {
    auto reactor = make(options());
    if (GetParam().ring == RingChoice::io_uring) {
        EXPECT_EQ(reactor->ring()->kind(), Ring::Kind::io_uring);
        EXPECT_TRUE(reactor->ring_reason().starts_with("io_uring"));
    } else {
        EXPECT_EQ(reactor->ring()->kind(), Ring::Kind::threads);
        EXPECT_EQ(reactor->ring_reason(), "threads: chosen by configuration");
    }
}

TEST_P(OsReactorRings, RunBlockingReturnsTheResult) {
    auto reactor = started(options());
    EXPECT_EQ(run_blocking(*reactor, [] { return seven(); }), 7);
}

Task<> write_then_read(Ring& ring, int fd, int count) {
    for (int i = 0; i < count; ++i) {
        AlignedBuffer buffer(block_bytes);
        std::memset(buffer.data(), 'a' + i % 26, buffer.size());
        const uint64_t offset = static_cast<uint64_t>(i) * block_bytes;
        EXPECT_EQ(co_await ring.write(fd, buffer.bytes(), offset), block_bytes);
        EXPECT_TRUE(co_await ring.fdatasync(fd));
        std::memset(buffer.data(), 0, buffer.size());
        EXPECT_EQ(co_await ring.read(fd, buffer.bytes(), offset), block_bytes);
        EXPECT_EQ(buffer.bytes()[4095], static_cast<std::byte>('a' + i % 26));
    }
    AlignedBuffer beyond(block_bytes);
    EXPECT_EQ(co_await ring.read(fd, beyond.bytes(), uint64_t{1} << 40), size_t{0});
    const auto bad = co_await ring.read(-1, beyond.bytes(), 0);
    EXPECT_EQ(bad.error().os_errno, EBADF);
}
TEST_P(OsReactorRings, WrittenBytesAreReadBack) {
    TemporaryFile file;
    auto reactor = make(options());
    reactor->run(write_then_read(*reactor->ring(), file.fd, 30));
    EXPECT_EQ(reactor->ring()->in_flight(), 0);
}

Task<> read_into(Ring& ring, int fd, Bytes memory) {
    EXPECT_EQ(co_await ring.write(fd, as_bytes("five!"), 0), size_t{5});
    EXPECT_EQ(co_await ring.read(fd, memory, 0), size_t{5});
}
TEST_P(OsReactorRings, LengthOf4GiBIsNotTruncated) {
    TemporaryFile file;
    auto reactor = make(options());
    const size_t bytes = size_t{1} << 32;
    void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    reactor->run(read_into(*reactor->ring(), file.fd, {static_cast<std::byte*>(memory), bytes}));
    ::munmap(memory, bytes);
}

// Completions are seen while the loop polls: a ring that shows them only in its wait would work,
// and waste all polling.
TEST_P(OsReactorRings, PollingFindsCompletions) {
    TemporaryFile file;
    auto long_poll = options();
    long_poll.poll_for = 10s;  // longer than any disk takes
    auto reactor = make(long_poll);
    reactor->run(write_then_read(*reactor->ring(), file.fd, 1));
    const auto& counters = reactor->counters();
    // While another process computes, the loop sleeps at once.
    if (counters.polls_contended.value() == 0) {
        EXPECT_EQ(counters.sleeps.value(), 0U);
    }
}

// `began` is a turn_time().
Task<> look_at_times(OsReactor& reactor) {
    const Time began = reactor.turn_time();
    EXPECT_LT(reactor.now() - began, 10s) << "the task's first step has no turn yet";
    const Time until = reactor.now() + 100us;
    while (reactor.now() < until) {
    }
    EXPECT_EQ(reactor.turn_time(), began);
    EXPECT_GE(reactor.since(began), 100us) << "in the turn itself the clock is read";
    const uint64_t turn = reactor.turns();
    while (reactor.turns() < turn + 2) co_await yield(reactor);
    EXPECT_GE(reactor.turn_time(), until);
    EXPECT_EQ(reactor.since(began), reactor.turn_time() - began);
}
TEST_P(OsReactorRings, TurnTimeStaysTheSameDuringATurn) {
    auto reactor = make(options());
    reactor->run(look_at_times(*reactor));
}

Task<> read_one(Ring& ring, int fd, Bytes into, std::atomic<int>& done) {
    const auto got = co_await ring.read(fd, into, 0);
    if (got == into.size()) ++done;
}
Task<> many_reads(OsReactor& reactor, int fd, Bytes into, std::atomic<int>& done) {
    Nursery nursery(reactor, 5000);
    for (int i = 0; i < 5000; ++i) {
        co_await nursery.spawn(
            read_one(*reactor.ring(), fd, into.subspan(static_cast<size_t>(i) * 64, 64), done));
    }
    co_await nursery.join();
}
TEST_P(OsReactorRings, OperationsBeyondTheKernelQueueComplete) {
    TemporaryFile file;
    AlignedBuffer memory(5000 * 64);
    std::memset(memory.data(), 1, memory.size());
    ASSERT_EQ(::pwrite(file.fd, memory.data(), block_bytes, 0), 4096);
    auto few = options();
    few.ring_entries = 16;
    auto reactor = make(few);
    std::atomic<int> done = 0;
    reactor->run(many_reads(*reactor, file.fd, memory.bytes(), done));
    EXPECT_EQ(done, 5000);
}

Task<> registered(Ring& ring, int fd) {
    AlignedBuffer memory(1 << 20);
    std::memset(memory.data(), 3, memory.size());
    const bool fixed = ring.register_memory(memory.bytes());
    EXPECT_EQ(fixed, ring.kind() == Ring::Kind::io_uring);
    const auto inside = memory.bytes().subspan(8 * block_bytes, block_bytes);
    EXPECT_EQ(co_await ring.write(fd, inside, 0), block_bytes);
    std::memset(inside.data(), 0, inside.size());
    EXPECT_EQ(co_await ring.read(fd, inside, 0), block_bytes);
    EXPECT_EQ(inside[17], std::byte{3});
    ring.unregister_memory(memory.bytes());
    EXPECT_EQ(co_await ring.read(fd, inside, 0), block_bytes);
    // Slots are used again: more rounds than there are slots.
    for (int i = 0; i < 200; ++i) {
        EXPECT_EQ(ring.register_memory(memory.bytes()), fixed);
        ring.unregister_memory(memory.bytes());
    }
}
TEST_P(OsReactorRings, RegisteredMemoryIsUsed) {
    TemporaryFile file;
    auto reactor = make(options());
    reactor->run(registered(*reactor->ring(), file.fd));
}

Task<> poll_pipe(OsReactor& reactor, int read_end, int write_end) {
    StopSource source;
    // Readable already.
    EXPECT_EQ(::write(write_end, "x", 1), 1);
    const auto events = co_await reactor.ring()->poll(read_end, POLLIN);
    EXPECT_TRUE(events && (*events & POLLIN) != 0);
    char byte = 0;
    EXPECT_EQ(::read(read_end, &byte, 1), 1);
    // Stopped before and while it waits.
    auto stop_soon = [](OsReactor& core, StopSource& stopper) -> Task<> {
        co_await sleep_for(core, 2ms);
        stopper.request_stop();
    };
    Nursery nursery(reactor, 1);
    co_await nursery.spawn(stop_soon(reactor, source));
    const auto stopped = co_await reactor.ring()->poll(read_end, POLLIN, source.token());
    EXPECT_EQ(stopped.error().code, Code::cancelled);
    co_await nursery.join();
    const auto never = co_await reactor.ring()->poll(read_end, POLLIN, source.token());
    EXPECT_EQ(never.error().code, Code::cancelled);
}
TEST_P(OsReactorRings, DescriptorsArePolled) {
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    auto reactor = make(options());
    reactor->run(poll_pipe(*reactor, ends[0], ends[1]));
    ::close(ends[0]);
    ::close(ends[1]);
}

Task<> wait_for_byte(OsReactor& reactor, int read_end, bool& came) {
    EXPECT_TRUE(co_await reactor.ring()->poll(read_end, POLLIN));
    came = true;
}
// A core that never sleeps, because it always has other work, looks at descriptors, too.
Task<> poll_beside_work(OsReactor& reactor, int read_end, int write_end) {
    bool came = false;
    Nursery nursery(reactor, 1);
    co_await nursery.spawn(wait_for_byte(reactor, read_end, came));
    for (int i = 0; i < 1000; ++i) co_await yield(reactor);
    EXPECT_FALSE(came);
    EXPECT_EQ(::write(write_end, "x", 1), 1);
    const Time until = reactor.now() + 10s;
    while (!came && reactor.now() < until) co_await yield(reactor);
    EXPECT_TRUE(came);
    co_await nursery.join();
}
TEST_P(OsReactorRings, DescriptorsArePolledDuringOtherWork) {
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    auto reactor = make(options());
    reactor->run(poll_beside_work(*reactor, ends[0], ends[1]));
    ::close(ends[0]);
    ::close(ends[1]);
}

Task<> wait_readable(Ring& ring, int fd, std::atomic<bool>& seen) {
    const auto events = co_await ring.poll(fd, POLLIN);
    seen = events.has_value();
}
TEST_P(OsReactorRings, PollWakesASleepingReactor) {
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    auto reactor = started(options());
    std::atomic<bool> seen = false;
    std::thread writer([&] {
        std::this_thread::sleep_for(20ms);
        EXPECT_EQ(::write(ends[1], "x", 1), 1);
    });
    run_blocking(*reactor, [&] { return wait_readable(*reactor->ring(), ends[0], seen); });
    EXPECT_TRUE(seen);
    writer.join();
    ::close(ends[0]);
    ::close(ends[1]);
}

Task<int> add(int a, int b) { co_return a + b; }
TEST_P(OsReactorRings, ConcurrentCallsAllComplete) {
    auto reactor = started(options());
    std::vector<std::thread> callers;
    std::atomic<int64_t> sum = 0;
    for (int i = 0; i < 16; ++i) {
        callers.emplace_back([&, i] {
            for (int n = 0; n < 500; ++n) {
                sum += run_blocking(*reactor, [&] { return add(i, n); });
            }
        });
    }
    for (auto& caller : callers) caller.join();
    EXPECT_EQ(sum, 16 * 500 * 499 / 2 + 500 * 120);
}

// Calls at irregular distances around poll_for, so that they meet the loop at every stage of going
// to sleep. A lost wake-up hangs (and the test's time limit ends it).
TEST_P(OsReactorRings, NoWakeUpIsLost) {
    auto short_poll = options();
    short_poll.poll_for = 5us;
    auto reactor = started(short_poll);
    std::vector<std::thread> callers;
    for (uint64_t i = 0; i < 3; ++i) {
        callers.emplace_back([&, i] {
            Random random(i);
            for (int n = 0; n < 4000; ++n) {
                const auto until = reactor->now() + Duration(random.below(30'000));
                while (reactor->now() < until) {
                }
                EXPECT_EQ(run_blocking(*reactor, [] { return seven(); }), 7);
            }
        });
    }
    for (auto& caller : callers) caller.join();
    // On a busy machine it may have had no rest until now.
    for (int n = 0; n < 500 && reactor->counters().sleeps.value() == 0; ++n) {
        std::this_thread::sleep_for(10ms);
    }
    EXPECT_GT(reactor->counters().sleeps.value(), 0U);
}

Duration processor_time() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const auto of = [](const timeval& tv) {
        return std::chrono::seconds(tv.tv_sec) + std::chrono::microseconds(tv.tv_usec);
    };
    return of(usage.ru_utime) + of(usage.ru_stime);
}
TEST_P(OsReactorRings, IdleReactorSleeps) {
    auto reactor = started(options());
    run_blocking(*reactor, [] { return seven(); });
    std::this_thread::sleep_for(20ms);
    const auto before = processor_time();
    std::this_thread::sleep_for(300ms);
    // The promise is 1 %; the bound leaves room for a loaded machine.
    EXPECT_LT(processor_time() - before, 9ms);
}

Task<bool> sleep_a_while(Reactor& reactor, Duration duration) {
    co_return co_await sleep_for(reactor, duration);
}
TEST_P(OsReactorRings, TimersFireButNeverEarly) {
    auto reactor = started(options());
    for (const auto duration : {0us, 50us, 700us, 3000us}) {
        const auto before = reactor->now();
        EXPECT_TRUE(run_blocking(*reactor, [&] { return sleep_a_while(*reactor, duration); }));
        EXPECT_GE(reactor->now() - before, duration);
    }
}

Task<int> sum_of_jobs(OsReactor& reactor, BlockingPool& pool, int count) {
    int sum = 0;
    for (int i = 0; i < count; ++i) sum += co_await pool.run(reactor, [i] { return i; });
    EXPECT_TRUE(reactor.is_current());
    co_return sum;
}
TEST(ThreadPool, JobResultsReturnToTheCaller) {
    auto reactor = started();
    ThreadPool pool(3);
    EXPECT_EQ(run_blocking(*reactor, [&] { return sum_of_jobs(*reactor, pool, 1000); }), 499'500);
}

Task<> count_to(Reactor& home, Reactor& other, int count, int& total) {
    for (int i = 0; i < count; ++i) total += co_await on(other, home, seven());
}
TEST(OsReactor, CoresCallEachOther) {
    auto left = started();
    auto right = started();
    int from_left = 0;
    int from_right = 0;
    std::thread other(
        [&] { run_blocking(*right, [&] { return count_to(*right, *left, 5000, from_right); }); });
    run_blocking(*left, [&] { return count_to(*left, *right, 5000, from_left); });
    other.join();
    // Each may still be on its way out of a post to the other: both end before either is destroyed.
    left->stop();
    right->stop();
    left->join();
    right->join();
    EXPECT_EQ(from_left, 35'000);
    EXPECT_EQ(from_right, 35'000);
}

struct CountingPoller final : Poller {
    std::atomic<int> pending = 0;
    int taken = 0;
    bool poll() noexcept override {
        const int now = pending.exchange(0);
        taken += now;
        return now > 0;
    }
    bool prepare_sleep() noexcept override { return pending.load() == 0; }
};
Task<> attach(Reactor& reactor, Poller& poller) {
    reactor.attach(poller);
    co_return;
}
Task<> detach(Reactor& reactor, Poller& poller) {
    reactor.detach(poller);
    co_return;
}
Task<int> taken(CountingPoller& poller) { co_return poller.taken; }
// A reactor whose post_remote() returns long after the core has resumed what was posted.
class SlowToReturn final : public ForwardingReactor {
  public:
    using ForwardingReactor::ForwardingReactor;
    void post_remote(RemotePost& post) noexcept override {
        ForwardingReactor::post_remote(post);
        ::poll(nullptr, 0, 50);
        returned = true;
    }
    std::atomic<bool> returned = false;
};

// Otherwise the thread uses a reactor that its owner has destroyed.
TEST(OsReactor, ForeignPostsOutliveThePostingThreads) {
    const auto reactor = started();
    SlowToReturn slow(*reactor);
    std::optional<ForeignPosts> posts(slow);
    struct Posted {
        ForeignPosts& posts;
        std::thread& thread;
        RemotePost post{};
        bool await_ready() const noexcept { return false; }
        void await_suspend(std::coroutine_handle<> handle) {
            post.handle = handle;
            thread = std::thread([this] { posts.post(post); });
        }
        void await_resume() const noexcept {}
    };
    std::thread thread;
    // The lambda lives as long as this function, which waits for the task.
    // NOLINTNEXTLINE(cppcoreguidelines-avoid-capturing-lambda-coroutines)
    const auto wait = [&]() -> Task<> { co_await Posted{*posts, thread}; };
    run_blocking(*reactor, wait);
    EXPECT_FALSE(slow.returned) << "nothing was tested";
    posts.reset();
    EXPECT_TRUE(slow.returned);
    thread.join();
}

TEST(OsReactor, PollerIsPolledAndWoken) {
    auto reactor = started({.poll_for = 5us});
    CountingPoller poller;
    run_blocking(*reactor, [&] { return attach(*reactor, poller); });
    for (int i = 0; i < 2000; ++i) {
        poller.pending.fetch_add(1);
        reactor->wake();
        while (poller.pending.load() != 0) sched_yield();
        if (i % 100 == 0) std::this_thread::sleep_for(100us);
    }
    EXPECT_EQ(run_blocking(*reactor, [&] { return taken(poller); }), 2000);
    run_blocking(*reactor, [&] { return detach(*reactor, poller); });
}

// A network's poller that sends frames that others queue, and a poller that queues one.
struct Sender final : Poller {
    int queued = 0;
    int asleep_with_queued = 0;
    bool poll() noexcept override { return std::exchange(queued, 0) > 0; }
    bool prepare_sleep() noexcept override {
        asleep_with_queued += queued;
        return true;
    }
};
struct Producer final : Poller {
    explicit Producer(Sender& where) : sender(where) {}
    Sender& sender;
    std::atomic<int> wanted = 0;
    bool poll() noexcept override {
        const int now = wanted.exchange(0);
        sender.queued += now;
        return now > 0;
    }
    bool prepare_sleep() noexcept override { return wanted.load() == 0; }
};
TEST(OsReactor, PollersSeeNewWorkBeforeTheSleep) {
    auto reactor = started({.poll_for = 0us});
    Sender sender;
    Producer producer(sender);
    run_blocking(*reactor, [&] { return attach(*reactor, sender); });
    run_blocking(*reactor, [&] { return attach(*reactor, producer); });
    for (int i = 0; i < 200; ++i) {
        producer.wanted.fetch_add(1);
        reactor->wake();
        while (producer.wanted.load() != 0) sched_yield();
        if (i % 10 == 0) std::this_thread::sleep_for(100us);
    }
    run_blocking(*reactor, [&] { return detach(*reactor, producer); });
    run_blocking(*reactor, [&] { return detach(*reactor, sender); });
    EXPECT_EQ(sender.asleep_with_queued, 0);
}

TEST(OsReactor, ForkedChildDetectsForkAndClosesDescriptors) {
    auto reactor = started();
    TemporaryFile file;
    const int listed = dup(file.fd);
    close_in_forked_child(listed);
    const pid_t child = fork();
    if (child == 0) {
        const bool knows = reactor->in_forked_child();
        const bool closed = fcntl(listed, F_GETFD) < 0 && fcntl(file.fd, F_GETFD) >= 0;
        reactor.reset();  // leaves everything be
        _exit(knows && closed ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_FALSE(reactor->in_forked_child());
    EXPECT_EQ(run_blocking(*reactor, [] { return seven(); }), 7);
    close_everywhere(listed);
    EXPECT_LT(fcntl(listed, F_GETFD), 0);
}

// Runs `check` where the machine was suspended for 1,000 s as far as clocks tell. Returns its
// result, or nullopt if only an administrator can have such clocks.
std::optional<bool> after_suspend(bool (*check)()) {
    constexpr int no_namespace = 2;
    const pid_t parent = fork();
    if (parent == 0) {
        std::ofstream offsets;
        if (unshare(CLONE_NEWTIME) == 0) offsets.open("/proc/self/timens_offsets");
        if (!(offsets << "boottime 1000 0" << std::flush)) _exit(no_namespace);
        const pid_t child = fork();
        if (child == 0) _exit(check() ? 0 : 1);
        int status = -1;
        _exit(waitpid(child, &status, 0) == child ? WEXITSTATUS(status) : 1);
    }
    int status = -1;
    EXPECT_EQ(waitpid(parent, &status, 0), parent);
    if (WEXITSTATUS(status) == no_namespace) return std::nullopt;
    return status == 0;
}

TEST(OsReactor, SuspendedTimeCounts) {
    const auto counted = after_suspend([] {
        const auto without = std::chrono::steady_clock::now().time_since_epoch();
        return make()->now().time_since_epoch() - without >= 1000s;
    });
    if (!counted) GTEST_SKIP() << "this user cannot make a time namespace";
    EXPECT_TRUE(*counted);
}

// Makes a system call fail with EPERM in this thread and those that it starts, as Docker's default
// filter does.
void forbid(int system_call) {
    const sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(system_call), 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const sock_fprog filter{std::size(program), const_cast<sock_filter*>(program)};
    ASSERT_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    ASSERT_EQ(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter), 0);
}
TEST(OsReactor, ForbiddenIoUringFallsBackToThreads) {
    std::thread forbidden([] {
        forbid(SYS_io_uring_setup);
        auto reactor = make();
        EXPECT_EQ(reactor->ring()->kind(), Ring::Kind::threads);
        EXPECT_TRUE(reactor->ring_reason().starts_with("threads: io_uring_setup failed (Operation"))
            << reactor->ring_reason();
        TemporaryFile file;
        reactor->run(write_then_read(*reactor->ring(), file.fd, 3));
        // If io_uring is required, this is an error that says what to do.
        Report report;
        const auto demanded = OsReactor::create({.ring = RingChoice::io_uring}, report);
        EXPECT_EQ(demanded.error().code, Code::denied);
        EXPECT_NE(report.text().find("seccomp"), std::string::npos) << report.text();
    });
    forbidden.join();
}

// A coroutine that is its own loop must not keep others, or stop(), from their turn.
Task<> spin(Reactor& reactor, std::atomic<bool>& end) {
    while (!end) co_await yield(reactor);
}
TEST(OsReactor, BusyCoroutineDoesNotStarveOthers) {
    auto reactor = started();
    std::atomic<bool> end = false;
    std::thread busy([&] { run_blocking(*reactor, [&] { return spin(*reactor, end); }); });
    for (int i = 0; i < 100; ++i) EXPECT_EQ(run_blocking(*reactor, [] { return seven(); }), 7);
    EXPECT_TRUE(run_blocking(*reactor, [&] { return sleep_a_while(*reactor, 1ms); }));
    end = true;
    busy.join();
}

}  // namespace
}  // namespace ros2s
