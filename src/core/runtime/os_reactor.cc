#include "ros2s/runtime/os_reactor.h"

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>
#include <vector>

#include "kernel_ring.h"
#include "leadership.h"
#include "mailbox.h"
#include "poll_habit.h"
#include "ros2s/runtime/fork.h"
#include "ros2s/runtime/nursery.h"
#include "thread.h"
#include "timer_queue.h"

namespace ros2s {
namespace {

// Handles that one turn resumes, and timers that it lets fire, at most. The rest waits for the next
// turn, so that completions and other threads are never starved.
constexpr size_t resumed_per_turn = 256;
constexpr size_t timers_per_turn = 64;
// After a yield that takes longer than this, another process computed. Polling beside such a
// process loses: each yield costs a whole time slice, while a sleeper that wakes goes first. So for
// a time an idle core sleeps at once (PollBan).
constexpr Duration yield_contended = std::chrono::microseconds(200);
// The turns of advance(): one for requests that were made visible, and one for work that they cause
// at once.
constexpr int turns_of_advance = 2;

Time read_clock(clockid_t clock) {
    timespec spec{};
    clock_gettime(clock, &spec);
    return Time{std::chrono::seconds{spec.tv_sec} + std::chrono::nanoseconds{spec.tv_nsec}};
}

// The time that a machine was suspended counts: to its peers, its leases have ended.
Time steady_time() { return read_clock(CLOCK_BOOTTIME); }

thread_local const void* current_loop = nullptr;

}  // namespace

struct OsReactor::Loop {
    Loop(OsReactorOptions opened_with, std::unique_ptr<Waker> opened_waker)
        : options(std::move(opened_with)), waker(std::move(opened_waker)), random(random_seed()) {
        if (options.callers_lead) leadership.emplace(*waker);
    }

    OsReactorOptions options;
    ForkMark process;
    std::unique_ptr<Waker> waker;
    ReadyQueue ready;
    TimerQueue timers;
    Mailbox<RemotePost> mailbox;
    std::vector<Poller*> pollers;
    Random random;
    Secrets secrets;
    std::unique_ptr<KernelRing> ring;
    std::string ring_reason;
    OsReactorCounters counters;
    std::atomic<bool> stop = false;
    std::atomic<bool> running = false;
    std::optional<Leadership> leadership;  // if callers lead
    std::thread thread;
    uint64_t turns = 0;
    PollHabit poll_habit;
    Time began{};  // the turn; the only look at the clock in most turns
    Time poll_until{};
    bool polling = false;  // in this wait
    bool yielded = false;  // at the end of the last turn
    bool worked = false;   // since the wait began
    PollBan poll_ban;
    Time poll_banned_until{};

    Result<> open_ring(Report& report);
    void begin();
    void end() {
        leave();
        running.store(false, std::memory_order_release);
    }
    // Another thread may run the next turn, at any time.
    void leave() noexcept {
        yielded = false;
        ring->sync_elsewhere();
    }
    // Sleeps until `until` at most.
    void turn(Time until = Time::max());
    bool turn_without_sleep();
    bool collect();
    void fire_timers();
    void resume_ready();
    void idle(Time until);
    bool may_sync(Time until) const noexcept;
    bool polls(bool new_work);
    void yielded_for(Duration took);
    void relax();
    void sleep(Time until);
    void wake() noexcept;
};

Result<> OsReactor::Loop::open_ring(Report& report) {
    if (options.ring != RingChoice::threads) {
        auto made = make_uring_ring(ready, *waker, options, ring_reason);
        if (made) {
            ring = std::move(*made);
            return {};
        }
        if (options.ring == RingChoice::io_uring) return report.fail(made.error(), ring_reason);
        ring_reason = "threads: " + ring_reason;
    } else {
        ring_reason = "threads: chosen by configuration";
    }
    ROS2S_TRY_ASSIGN(ring, make_thread_ring(ready, *waker, options, report));
    return {};
}

void OsReactor::Loop::begin() {
    ROS2S_CHECK(!process.in_forked_child());
    // One thread at a time, and no loop inside a loop.
    ROS2S_CHECK(!running.exchange(true, std::memory_order_acquire));
    ring->enter_thread();
    began = steady_time();
    worked = true;
}

void OsReactor::Loop::turn(Time until) {
    if (!turn_without_sleep()) idle(until);
}

// Returns true if it resumed anything.
bool OsReactor::Loop::turn_without_sleep() {
    ++turns;
    const Time before = std::exchange(began, steady_time());
    if (std::exchange(yielded, false)) yielded_for(began - before);
    if (collect()) worked = true;
    fire_timers();
    if (ready.empty()) return false;
    resume_ready();
    ring->flush();
    return true;
}

// Takes in what came from outside. Timers are not counted as work to poll on for: a core that only
// wakes for a periodic timer sleeps again at once.
bool OsReactor::Loop::collect() {
    const size_t posts = mailbox.take_all([this](RemotePost& post) { ready.push(post.handle); });
    counters.remote_posts.add(posts);
    bool found = posts > 0;
    found |= ring->reap(began, polling && !worked);
    for (size_t i = 0; i < pollers.size(); ++i) found |= pollers[i]->poll();
    return found;
}

void OsReactor::Loop::fire_timers() {
    if (timers.empty()) return;
    for (size_t i = 0; i < timers_per_turn && !timers.empty(); ++i) {
        Timer& timer = timers.earliest();
        if (timer.at > began) return;
        timers.disarm(timer);
        ready.push(timer.waiter);
    }
}

void OsReactor::Loop::resume_ready() {
    const size_t count = std::min(ready.size(), resumed_per_turn);
    for (size_t i = 0; i < count; ++i) ready.pop().resume();
    counters.resumed.add(count);
}

// Sleeps only after every poller has found no work: the work of one poller must be visible to the
// others, such as that of a network that still has to notify the peer.
void OsReactor::Loop::idle(Time until) {
    if (ring->keeps_sync()) {
        if (may_sync(until)) return ring->sync_here();
        ring->sync_elsewhere();
    }
    ring->flush();
    const bool new_work = std::exchange(worked, false);
    if (!polls(new_work) && !new_work) sleep(until);
}

// A device may take longer than a caller wants to wait, and other callers should not wait for it.
bool OsReactor::Loop::may_sync(Time until) const noexcept {
    return until == Time::max() && (!leadership || leadership->is_alone());
}

// Polls once if it is to go on polling. A wait begins with new work, which the poll of the wait
// before may have found.
bool OsReactor::Loop::polls(bool new_work) {
    if (options.poll_for == Duration::zero() || (!new_work && !polling)) return false;
    if (new_work) {
        if (polling) {
            poll_habit.found();
            poll_ban.found();
        }
        polling = poll_habit.begin();
        if (!polling) return false;
    }
    if (new_work) poll_until = began + options.poll_for;
    polling = began < poll_until && began >= poll_banned_until;
    if (polling) {
        sched_yield();
        yielded = true;
    } else if (began >= poll_until) {
        poll_habit.in_vain();
    }
    return polling;
}

// `took`: a yield, and perhaps a look that found nothing.
void OsReactor::Loop::yielded_for(Duration took) {
    if (took <= yield_contended) return;
    poll_banned_until = began + poll_ban.contended();
    counters.polls_contended.add();
}

void OsReactor::Loop::relax() {
    if (options.poll_for == Duration::zero()) return;
    const Time before = steady_time();
    if (before < poll_banned_until) return;
    sched_yield();
    yielded_for(steady_time() - before);
}

void OsReactor::Loop::sleep(Time until) {
    waker->going_to_sleep();
    bool may_sleep = mailbox.empty() && !stop.load(std::memory_order_seq_cst);
    size_t asked = 0;
    for (; may_sleep && asked < pollers.size(); ++asked) {
        may_sleep = pollers[asked]->prepare_sleep();
    }
    if (may_sleep) {
        counters.sleeps.add();
        std::optional<Duration> limit;
        if (!timers.empty()) until = std::min(until, timers.earliest().at);
        if (until != Time::max()) {
            limit = std::max(Duration::zero(), until - began);
        }
        ring->wait(limit);
    }
    for (size_t i = 0; i < asked; ++i) pollers[i]->woke();
    waker->awake();
}

void OsReactor::Loop::wake() noexcept {
    waker->notify();
    if (leadership) leadership->ensure();
}

Result<std::unique_ptr<OsReactor>> OsReactor::create(OsReactorOptions options, Report& report) {
    ROS2S_TRY_ASSIGN(auto waker, Waker::create(report));
    auto loop = std::make_unique<Loop>(std::move(options), std::move(waker));
    ROS2S_TRY(loop->open_ring(report));
    return std::unique_ptr<OsReactor>(new OsReactor(std::move(loop)));
}

OsReactor::OsReactor(std::unique_ptr<Loop> loop) : loop_(std::move(loop)) {}

OsReactor::~OsReactor() {
    if (in_forked_child()) {
        // The thread does not exist here, and the ring's memory is the parent's: leave all be.
        [[maybe_unused]] const auto* left_be = loop_.release();
        return;
    }
    stop();
    join();
    // An operation in flight would write into memory that its owner has taken back.
    ROS2S_CHECK(loop_->ring->in_flight() == 0);
}

Result<> OsReactor::start(Report& report) {
    ROS2S_CHECK(!loop_->thread.joinable());
    auto thread = start_thread(loop_->options.thread_name, [this] {
        if (loop_->leadership) {
            stand_in();
        } else {
            run();
        }
    });
    if (!thread) {
        return report.fail(thread.error(), no_thread("the reactor's thread", thread.error()));
    }
    loop_->thread = std::move(*thread);
    return {};
}

void OsReactor::run() {
    const void* before = std::exchange(current_loop, loop_.get());
    loop_->begin();
    while (!loop_->stop.load(std::memory_order_relaxed)) loop_->turn();
    loop_->end();
    current_loop = before;
}

// The own thread's life where callers lead.
void OsReactor::stand_in() {
    Leadership& leadership = *loop_->leadership;
    current_loop = loop_.get();
    while (leadership.stand_in()) {
        while (!loop_->stop.load(std::memory_order_relaxed) && !leadership.asked()) loop_->turn();
        loop_->leave();
        leadership.leave();
    }
    current_loop = nullptr;
}

void OsReactor::advance() noexcept {
    const Lead lead(*this, loop_->leadership && loop_->leadership->try_lead());
    if (!lead) return announce();
    for (int i = 0; i < turns_of_advance && loop_->turn_without_sleep(); ++i) {
    }
    // A poller can submit operations and leave nothing to resume.
    loop_->ring->flush();
}

void OsReactor::announce() noexcept {
    if (loop_->leadership) loop_->leadership->pass_by();
    loop_->waker->notify();
}

Lead::Lead(OsReactor& reactor, Expects expected) noexcept
    : Lead(reactor, reactor.loop_->leadership &&
                        (expected == Expects::one_turn ? reactor.loop_->leadership->lead_briefly()
                                                       : reactor.loop_->leadership->lead())) {}
Lead::Lead(OsReactor& reactor, bool leads) noexcept : reactor_(reactor), leads_(leads) {
    if (leads_) before_ = std::exchange(current_loop, reactor.loop_.get());
}
Lead::~Lead() {
    if (!leads_) return;
    current_loop = before_;
    reactor_.loop_->leave();
    reactor_.loop_->leadership->leave();
}
void Lead::turn(Time until) noexcept { reactor_.loop_->turn(until); }

Follow::Follow(OsReactor& reactor) noexcept : reactor_(reactor) {
    if (reactor.loop_->leadership) reactor.loop_->leadership->follow();
}
Follow::~Follow() {
    if (reactor_.loop_->leadership) reactor_.loop_->leadership->unfollow();
}

void OsReactor::run_void(Task<> task) {
    const void* before = std::exchange(current_loop, loop_.get());
    loop_->begin();
    {
        Nursery nursery(*this, 1);
        const bool spawned = nursery.try_spawn(std::move(task));
        ROS2S_CHECK(spawned);
        while (nursery.running() > 0) loop_->turn();
    }
    loop_->end();
    current_loop = before;
}

void OsReactor::stop() noexcept {
    loop_->stop.store(true, std::memory_order_seq_cst);
    loop_->waker->notify();
    if (loop_->leadership) loop_->leadership->close();
}

void OsReactor::join() {
    if (loop_->thread.joinable()) loop_->thread.join();
}

const std::string& OsReactor::ring_reason() const noexcept { return loop_->ring_reason; }
const OsReactorOptions& OsReactor::options() const noexcept { return loop_->options; }
const OsReactorCounters& OsReactor::counters() const noexcept { return loop_->counters; }
uint64_t OsReactor::turns() const noexcept { return loop_->turns; }
bool OsReactor::in_forked_child() const noexcept { return loop_->process.in_forked_child(); }

Time OsReactor::now() const noexcept { return steady_time(); }
Time OsReactor::turn_time() const noexcept { return loop_->began; }
WallTime OsReactor::wall_time() const noexcept {
    return WallTime{read_clock(CLOCK_REALTIME).time_since_epoch()};
}
Random& OsReactor::random() noexcept { return loop_->random; }
const Secrets& OsReactor::secrets() const noexcept { return loop_->secrets; }
bool OsReactor::is_current() const noexcept { return current_loop == loop_.get(); }
void OsReactor::post(std::coroutine_handle<> handle) noexcept { loop_->ready.push(handle); }
void OsReactor::post_remote(RemotePost& post) noexcept {
    loop_->mailbox.push(post);
    loop_->wake();
}
void OsReactor::wake() noexcept { loop_->wake(); }
void OsReactor::relax() noexcept { loop_->relax(); }
void OsReactor::arm(Timer& timer) noexcept { loop_->timers.arm(timer); }
void OsReactor::disarm(Timer& timer) noexcept { loop_->timers.disarm(timer); }
void OsReactor::attach(Poller& poller) { loop_->pollers.push_back(&poller); }
void OsReactor::detach(Poller& poller) noexcept { std::erase(loop_->pollers, &poller); }
Ring* OsReactor::ring() noexcept { return loop_->ring.get(); }

}  // namespace ros2s
