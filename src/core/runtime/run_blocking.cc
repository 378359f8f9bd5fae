#include "ros2s/runtime/run_blocking.h"

#include "futex.h"
#include "poll_habit.h"
#include "ros2s/runtime/kept_errno.h"

namespace ros2s::blocking_detail {
namespace {

// Whether the thread's calls end in one turn, because they need only memory.
thread_local PollHabit one_turn_habit;

}  // namespace

void Latch::open() noexcept {
    took_one_turn_ = reactor_.turns() == begun_;
    const uint32_t before = state_.exchange(opened, std::memory_order_acq_rel);
    // The waiter may return and its stack be reused between these two lines. Then the wake-up goes
    // to an address without a waiter, or at worst wakes another futex early; waiters re-check.
    if (before == asleep) futex_wake_one(state_);
}

void Latch::wait() noexcept {
    uint32_t expected = closed;
    state_.compare_exchange_strong(expected, asleep, std::memory_order_acq_rel);
    while (!is_open()) futex_wait(state_, asleep);
}

void carry_out(OsReactor& reactor, Latch& latch, Carrier carrier) noexcept {
    ROS2S_CHECK(!reactor.is_current());
    ROS2S_CHECK(!reactor.in_forked_child());
    const KeptErrno kept;
    const bool is_brief = one_turn_habit.begin();
    if (Lead lead(reactor, is_brief ? Lead::Expects::one_turn : Lead::Expects::turns); lead) {
        reactor.post(carrier.handle);
        while (!latch.is_open()) lead.turn();
    } else {
        RemotePost post{.handle = carrier.handle};
        reactor.post_remote(post);
        const Follow follow(reactor);
        latch.wait();
    }
    if (is_brief) latch.took_one_turn() ? one_turn_habit.found() : one_turn_habit.in_vain();
    carrier.handle.destroy();
}

}  // namespace ros2s::blocking_detail
