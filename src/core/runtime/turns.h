// Turns: a bounded number of places, such as helper threads, that holders (tenants, callers) share,
// so that long calls of one holder leave places to the others.
//
//     ROS2S_CO_TRY_ASSIGN(const auto place, co_await turns.enter(call, holder));
//
// A holder has no more places than are free: alone half of them, a second holder half of what is
// left, and so on; always one, if a place is free. It also never has more than `each_max`. Further
// calls of a holder wait in their order. When a place is free, the holder with the fewest places is
// next; among equals they take turns. A call that ends leaves its queue.
//
// Owned by the composing code; outlives its places. Used on one core.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

#include "ros2s/runtime/blocking.h"
#include "ros2s/runtime/call.h"
#include "ros2s/runtime/reactor.h"
#include "ros2s/runtime/stop.h"
#include "ros2s/runtime/sync.h"
#include "ros2s/runtime/task.h"

namespace ros2s {

template <class Holder>
class Turns {
  public:
    // One of the places. Released by its destructor.
    class [[nodiscard]] Permit {
      public:
        Permit() = default;
        Permit(Turns& turns, Holder holder) : turns_(&turns), holder_(std::move(holder)) {}
        Permit(Permit&& other) noexcept
            : turns_(std::exchange(other.turns_, nullptr)), holder_(std::move(other.holder_)) {}
        Permit& operator=(Permit&&) = delete;
        ~Permit() {
            if (turns_ != nullptr) turns_->leave(holder_);
        }

      private:
        Turns* turns_ = nullptr;
        Holder holder_{};
    };

    Turns(Reactor& reactor, size_t places, size_t each_max = SIZE_MAX)
        : reactor_(reactor), each_max_(each_max), free_(places) {}
    ~Turns() { ROS2S_CHECK(uses_.empty()); }
    Turns& operator=(Turns&&) = delete;

    // Errors: cancelled, deadline: the call ended while it waited.
    Task<Result<Permit>> enter(Call call, Holder holder) {
        ROS2S_CO_TRY(call.check(reactor_));
        Use& use = uses_[holder];
        if (use.waiting.empty() && has_room(use)) {
            take(use);
            co_return Permit(*this, std::move(holder));
        }
        StopSource sleep;
        sync_detail::Waiter waiter{.sleep = &sleep};
        use.waiting.push(waiter);
        {
            const ForwardedStop stop(call.stop, sleep);
            (void)co_await sleep_until(reactor_, call.deadline, sleep.token());
        }
        if (waiter.sleep != nullptr) {
            use.waiting.remove(waiter);
            forget_unused(uses_.find(holder));
            co_return fail(call.check(reactor_).error());
        }
        Permit place(*this, std::move(holder));
        ROS2S_CO_TRY(call.check(reactor_));
        co_return std::move(place);
    }
    // The places that it has.
    [[nodiscard]] size_t running(const Holder& holder) const {
        const auto found = uses_.find(holder);
        return found == uses_.end() ? 0 : found->second.running;
    }

  private:
    struct Use {
        size_t running = 0;
        sync_detail::WaiterQueue waiting{};
    };
    using Uses = std::map<Holder, Use>;

    [[nodiscard]] bool has_room(const Use& use) const noexcept {
        return free_ > 0 && use.running < each_max_ && (use.running == 0 || use.running < free_);
    }
    void take(Use& use) noexcept {
        ++use.running;
        --free_;
    }
    void forget_unused(Uses::iterator use) noexcept {
        if (use->second.running == 0 && use->second.waiting.empty()) uses_.erase(use);
    }
    void leave(const Holder& holder) noexcept {
        const auto found = uses_.find(holder);
        --found->second.running;
        ++free_;
        for (auto each = next(); each != uses_.end(); each = next()) {
            last_ = each->first;
            take(each->second);
            std::exchange(each->second.waiting.pop().sleep, nullptr)->request_stop();
        }
        forget_unused(found);
    }
    // The end: no holder that has room waits.
    [[nodiscard]] Uses::iterator next() noexcept {
        auto best = uses_.end();
        const auto look = [&](Uses::iterator from, Uses::iterator to) {
            for (; from != to; ++from) {
                const Use& use = from->second;
                if (use.waiting.empty() || !has_room(use)) continue;
                if (best == uses_.end() || use.running < best->second.running) best = from;
            }
        };
        const auto after = uses_.upper_bound(last_);
        look(after, uses_.end());
        look(uses_.begin(), after);
        return best;
    }

    Reactor& reactor_;
    const size_t each_max_;
    size_t free_;
    Holder last_{};  // the holder that was next before
    Uses uses_;      // of those with calls
};

// The helper threads of a BlockingPool, by tenant; 0: for no tenant.
using ThreadTurns = Turns<uint64_t>;

// A place for a call of a tenant; an empty one if `turns` is null. Errors: those of enter().
inline Task<Result<ThreadTurns::Permit>> enter_in_time(ThreadTurns* turns, Call call) {
    if (turns == nullptr) co_return ThreadTurns::Permit();
    co_return co_await turns->enter(call, call.tenant);
}

// The result of `function`, which blocks, on a helper thread. Errors also: those of
// enter_in_time(), and then it was not called.
template <class F>
Task<std::invoke_result_t<F&>> run_in_turn(ThreadTurns* turns, BlockingPool& pool, Reactor& reactor,
                                           Call call, F function) {
    ROS2S_CO_TRY_ASSIGN(const ThreadTurns::Permit place,
                        co_await enter_in_time(turns, std::move(call)));
    co_return co_await pool.run(reactor, std::move(function));
}

// The call of the rest of an operation that has begun, and of releasing what it holds.
[[nodiscard]] inline Call without_end(const Call& call) {
    Call rest = call;
    rest.deadline = Time::max();
    rest.stop = {};
    return rest;
}

}  // namespace ros2s
