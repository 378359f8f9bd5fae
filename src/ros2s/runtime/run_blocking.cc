#include "ros2s/runtime/run_blocking.h"

#include "futex.h"
#include "ros2s/runtime/kept_errno.h"

namespace ros2s::blocking_detail {

void Latch::open() noexcept {
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
    if (Lead lead(reactor); lead) {
        reactor.post(carrier.handle);
        while (!latch.is_open()) lead.turn();
    } else {
        RemotePost post{.handle = carrier.handle};
        reactor.post_remote(post);
        const Follow follow(reactor);
        latch.wait();
    }
    carrier.handle.destroy();
}

}  // namespace ros2s::blocking_detail
