#include "ros2s/runtime/run_blocking.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace ros2s::blocking_detail {
namespace {

void futex(std::atomic<uint32_t>& word, int operation, uint32_t value) noexcept {
    syscall(SYS_futex, &word, operation, value, nullptr, nullptr, 0);
}

}  // namespace

void Gate::open() noexcept {
    const uint32_t before = state_.exchange(opened, std::memory_order_acq_rel);
    // The waiter may return and its stack be reused between these two lines. Then the wake-up goes
    // to an address where nobody waits, or at worst wakes another futex early; waiters re-check.
    if (before == asleep) futex(state_, FUTEX_WAKE_PRIVATE, 1);
}

void Gate::wait(OsReactor& reactor) noexcept {
    if (reactor.begin_caller_poll()) {
        const Time until = reactor.now() + reactor.options().poll_for;
        while (state_.load(std::memory_order_acquire) != opened && reactor.now() < until) {
            sched_yield();
        }
        reactor.end_caller_poll();
    }
    uint32_t expected = closed;
    state_.compare_exchange_strong(expected, asleep, std::memory_order_acq_rel);
    while (state_.load(std::memory_order_acquire) != opened) {
        futex(state_, FUTEX_WAIT_PRIVATE, asleep);
    }
}

void carry_out(OsReactor& reactor, Gate& gate, Carrier carrier) noexcept {
    ROS2S_CHECK(!reactor.is_current());
    ROS2S_CHECK(!reactor.in_forked_child());
    RemotePost post{.handle = carrier.handle};
    reactor.post_remote(post);
    gate.wait(reactor);
    carrier.handle.destroy();
}

}  // namespace ros2s::blocking_detail
