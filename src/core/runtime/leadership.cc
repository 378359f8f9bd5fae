#include "leadership.h"

#include <sched.h>

#include <algorithm>

#include "futex.h"

namespace ros2s {
namespace {

// Shorter, and the own thread wakes often beside a busy caller; longer, and what a caller leaves
// under way waits longer for its next step.
constexpr Duration grace = std::chrono::microseconds(500);
constexpr Duration shared_for = std::chrono::milliseconds(10);
// Brief callers that are refused more rarely need not lead: each of their calls sleeps once.
constexpr Duration refused_often = std::chrono::milliseconds(1);
// For the own thread to wake and end its turn. A caller that did not become the leader follows.
constexpr Duration asks_for = std::chrono::milliseconds(1);
// For the turn of another brief caller. If it takes longer, that caller may need this processor.
constexpr Duration spins_for = std::chrono::microseconds(5);

void pause_processor() noexcept {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#else
    asm volatile("yield");
#endif
}

Time monotonic() noexcept { return Time(std::chrono::steady_clock::now().time_since_epoch()); }

}  // namespace

bool Leadership::lead() noexcept {
    if (is_shared()) return false;
    if (try_lead()) return true;
    const Time begun = monotonic();
    if (followers_.load(std::memory_order_relaxed) > 0) {
        share(begun);
        return false;
    }
    for (Time now = begun; now < begun + asks_for; now = monotonic()) {
        if (is_caller(leader_.load(std::memory_order_relaxed))) {
            share(now);
            return false;
        }
        ask();
        if (try_lead()) return true;
    }
    asked_.store(false, std::memory_order_relaxed);
    return false;
}

bool Leadership::lead_briefly() noexcept {
    if (try_lead(brief)) return true;
    const Time begun = monotonic();
    for (Time now = begun; now < begun + asks_for; now = monotonic()) {
        const uint32_t leader = leader_.load(std::memory_order_relaxed);
        if (is_caller(leader)) crowded_until_.store(now + shared_for, std::memory_order_relaxed);
        if (leader == caller) {
            const Time before = brief_refused_.exchange(now, std::memory_order_relaxed);
            if (now < before + refused_often) share(now);
            return false;
        }
        if (leader == brief && waker_.is_asleep()) return false;
        if (leader != brief) {
            ask();
        } else if (now < begun + spins_for) {
            pause_processor();
        } else {
            ::sched_yield();
        }
        if (try_lead(brief)) return true;
    }
    asked_.store(false, std::memory_order_relaxed);
    return false;
}

bool Leadership::is_alone() const noexcept {
    const Time seen_until = std::max(shared_until_.load(std::memory_order_relaxed),
                                     crowded_until_.load(std::memory_order_relaxed));
    return is_caller(leader_.load(std::memory_order_relaxed)) &&
           followers_.load(std::memory_order_relaxed) == 0 && monotonic() >= seen_until;
}

void Leadership::pass_by() noexcept {
    if (is_caller(leader_.load(std::memory_order_relaxed))) {
        crowded_until_.store(monotonic() + shared_for, std::memory_order_relaxed);
    }
}

void Leadership::ask() noexcept {
    asked_.store(true, std::memory_order_seq_cst);
    waker_.notify();
    ::sched_yield();
}

bool Leadership::is_shared() noexcept {
    const Time until = shared_until_.load(std::memory_order_relaxed);
    if (until == Time{}) return false;  // without a look at the clock
    const Time now = monotonic();
    if (now >= until) {
        shared_until_.store(Time{}, std::memory_order_relaxed);
        return false;
    }
    if (followers_.load(std::memory_order_relaxed) > 0) share(now);
    return true;
}

void Leadership::share(Time now) noexcept {
    shared_until_.store(now + shared_for, std::memory_order_relaxed);
}

void Leadership::leave() noexcept {
    const bool was_caller = leader_.load(std::memory_order_relaxed) != own;
    if (was_caller)
        left_.store(left_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    leader_.store(none, std::memory_order_seq_cst);
    if (was_caller && followers_.load(std::memory_order_seq_cst) > 0) call();
}

void Leadership::follow() noexcept {
    followers_.fetch_add(1, std::memory_order_seq_cst);
    ensure();
}

void Leadership::call() noexcept {
    if (called_.exchange(1, std::memory_order_seq_cst) == 0) futex_wake_one(called_);
}

void Leadership::close() noexcept {
    closed_.store(true, std::memory_order_seq_cst);
    call();
}

bool Leadership::stand_in() noexcept {
    while (!closed_.load(std::memory_order_seq_cst)) {
        const uint32_t left = left_.load(std::memory_order_relaxed);
        futex_wait(called_, 0, grace);
        const bool is_called = called_.exchange(0, std::memory_order_seq_cst) != 0;
        if (!is_called && left != left_.load(std::memory_order_relaxed)) continue;
        uint32_t expected = none;
        if (leader_.compare_exchange_strong(expected, own, std::memory_order_seq_cst)) {
            asked_.store(false, std::memory_order_relaxed);
            return true;
        }
    }
    return false;
}

}  // namespace ros2s
