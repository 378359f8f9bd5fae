// ThreadTurns: the helper threads of a BlockingPool that tenants share, so that long calls of one
// tenant leave threads to the others.
//
//     co_return co_await run_in_turn(turns, pool, reactor, call, work);
//
// A call that is stopped leaves its queue.
//
// A tenant has no more calls on threads than are free: alone half of the threads, a second tenant
// half of what is left, and so on; always one, if a thread is free. Further calls of a tenant wait
// in their order. When a thread is free, the tenant with the fewest calls on threads is next; among
// equals they take turns.
//
// Owned by the composing code; outlives its places. Used on one core.
#pragma once
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

#include "ros2s/runtime/blocking.h"
#include "ros2s/runtime/call.h"
#include "ros2s/runtime/reactor.h"
#include "ros2s/runtime/stop.h"
#include "ros2s/runtime/task.h"

namespace ros2s {

class ThreadTurns {
  public:
    // One of the threads. Released by its destructor.
    class [[nodiscard]] Permit {
      public:
        Permit() = default;
        Permit(ThreadTurns& turns, uint64_t tenant) : turns_(&turns), tenant_(tenant) {}
        Permit(Permit&& other) noexcept
            : turns_(std::exchange(other.turns_, nullptr)), tenant_(other.tenant_) {}
        Permit& operator=(Permit&&) = delete;
        Permit(const Permit&) = delete;
        Permit& operator=(const Permit&) = delete;
        ~Permit() {
            if (turns_ != nullptr) turns_->leave(tenant_);
        }

      private:
        ThreadTurns* turns_ = nullptr;
        uint64_t tenant_ = 0;
    };

    ThreadTurns(Reactor& reactor, size_t threads) : reactor_(reactor), threads_(threads) {}
    ~ThreadTurns();
    ThreadTurns(const ThreadTurns&) = delete;
    ThreadTurns& operator=(const ThreadTurns&) = delete;

    // co_await turns.enter(tenant, stop): a Permit, which is empty if the call was stopped while it
    // waited. 0: for no tenant.
    class Entering;
    [[nodiscard]] Entering enter(uint64_t tenant, StopToken stop = {}) noexcept;

  private:
    struct Waiter {
        std::coroutine_handle<> handle{};
        Waiter* next = nullptr;
        Waiter* previous = nullptr;
        enum class State : uint8_t { outside, waiting, inside } state = State::outside;
    };
    struct Tenant {
        size_t running = 0;
        Waiter* first = nullptr;
        Waiter* last = nullptr;
    };
    using Tenants = std::map<uint64_t, Tenant>;
    [[nodiscard]] bool has_room(const Tenant& tenant) const noexcept;
    bool begin_now(uint64_t tenant) noexcept;
    void wait(uint64_t tenant, Waiter& waiter) noexcept;
    // It does not wait any more.
    static void remove(Tenant& tenant, Waiter& waiter) noexcept;
    void stop_waiting(uint64_t tenant, Waiter& waiter) noexcept;
    void leave(uint64_t tenant) noexcept;
    // Null: no tenant that has room waits.
    [[nodiscard]] Tenants::value_type* next() noexcept;

    Reactor& reactor_;
    const size_t threads_;
    size_t running_ = 0;
    uint64_t last_ = 0;  // the tenant that was next before
    Tenants tenants_;    // with calls
};

class [[nodiscard]] ThreadTurns::Entering {
  public:
    Entering(ThreadTurns& turns, uint64_t tenant, StopToken stop) noexcept
        : turns_(turns), tenant_(tenant), stop_(stop), stopped_(*this) {}
    Entering(const Entering&) = delete;
    Entering& operator=(const Entering&) = delete;
    bool await_ready() noexcept {
        if (stop_.stop_requested()) return true;
        if (!turns_.begin_now(tenant_)) return false;
        waiter_.state = Waiter::State::inside;
        return true;
    }
    void await_suspend(std::coroutine_handle<> handle) noexcept {
        waiter_.handle = handle;
        turns_.wait(tenant_, waiter_);
    }
    Permit await_resume() noexcept {
        return waiter_.state == Waiter::State::inside ? Permit(turns_, tenant_) : Permit();
    }

  private:
    struct Stopped : StopCallback {
        explicit Stopped(Entering& owner) noexcept
            : StopCallback(owner.stop_.source(),
                           [](StopCallback& self) noexcept {
                               Entering& entering = static_cast<Stopped&>(self).owner_;
                               entering.turns_.stop_waiting(entering.tenant_, entering.waiter_);
                           }),
              owner_(owner) {}
        Entering& owner_;
    };
    ThreadTurns& turns_;
    const uint64_t tenant_;
    const StopToken stop_;
    Waiter waiter_;
    Stopped stopped_;
};

inline ThreadTurns::Entering ThreadTurns::enter(uint64_t tenant, StopToken stop) noexcept {
    return {*this, tenant, stop};
}

// A place for a call of a tenant; an empty one if `turns` is null. Errors: cancelled, deadline: the
// call ended while it waited.
inline Task<Result<ThreadTurns::Permit>> enter_in_time(ThreadTurns* turns, Reactor& reactor,
                                                       Call call) {
    if (turns == nullptr) co_return ThreadTurns::Permit();
    ThreadTurns::Permit place = co_await turns->enter(call.tenant, call.stop);
    ROS2S_CO_TRY(call.check(reactor));
    co_return std::move(place);
}

// The result of `function`, which blocks, on a helper thread. Errors also: those of
// enter_in_time(), and then it was not called.
template <class F>
Task<std::invoke_result_t<F&>> run_in_turn(ThreadTurns* turns, BlockingPool& pool, Reactor& reactor,
                                           Call call, F function) {
    ROS2S_CO_TRY_ASSIGN(const ThreadTurns::Permit place,
                        co_await enter_in_time(turns, reactor, std::move(call)));
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
