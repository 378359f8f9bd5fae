// ThreadTurns: the helper threads of a BlockingPool that tenants share, so that calls of one tenant
// which block for long leave threads to the others.
//
//     co_return co_await run_in_turn(turns, pool, reactor, call, work);
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
#include "ros2s/runtime/task.h"

namespace ros2s {

class ThreadTurns {
  public:
    // One of the threads. Released by its destructor.
    class [[nodiscard]] Place {
      public:
        Place() = default;
        Place(ThreadTurns& turns, uint64_t tenant) : turns_(&turns), tenant_(tenant) {}
        Place(Place&& other) noexcept
            : turns_(std::exchange(other.turns_, nullptr)), tenant_(other.tenant_) {}
        Place& operator=(Place&&) = delete;
        Place(const Place&) = delete;
        Place& operator=(const Place&) = delete;
        ~Place() {
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

    // 0: for no tenant.
    [[nodiscard]] auto enter(uint64_t tenant) noexcept {
        struct Awaiter {
            ThreadTurns& turns;
            uint64_t tenant;
            Waiter waiter{};
            bool await_ready() noexcept { return turns.begin_now(tenant); }
            void await_suspend(std::coroutine_handle<> handle) noexcept {
                waiter.handle = handle;
                turns.wait(tenant, waiter);
            }
            Place await_resume() noexcept { return {turns, tenant}; }
        };
        return Awaiter{*this, tenant};
    }

  private:
    struct Waiter {
        std::coroutine_handle<> handle{};
        Waiter* next = nullptr;
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
    void leave(uint64_t tenant) noexcept;
    // Null: nobody waits who has room.
    [[nodiscard]] Tenants::value_type* next() noexcept;

    Reactor& reactor_;
    const size_t threads_;
    size_t running_ = 0;
    uint64_t last_ = 0;  // the tenant that was next before
    Tenants tenants_;    // with calls
};

// A place for a call of a tenant; an empty one if `turns` is null. Errors: cancelled, deadline: the
// call ended while it waited.
inline Task<Result<ThreadTurns::Place>> enter_in_time(ThreadTurns* turns, Reactor& reactor,
                                                      Call call) {
    if (turns == nullptr) co_return ThreadTurns::Place();
    ThreadTurns::Place place = co_await turns->enter(call.tenant);
    ROS2S_CO_TRY(call.check(reactor.now()));
    co_return std::move(place);
}

// The result of `function`, which blocks, on a helper thread. Errors also: those of
// enter_in_time(), and then it was not called.
template <class F>
Task<std::invoke_result_t<F&>> run_in_turn(ThreadTurns* turns, BlockingPool& pool, Reactor& reactor,
                                           Call call, F function) {
    ROS2S_CO_TRY_ASSIGN(const ThreadTurns::Place place,
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
