// run_blocking: how a thread without a reactor calls into one. It runs a task there and blocks for
// the result.
//
//     Result<size_t> got = run_blocking(reactor, [&] { return file.read(call, offset, bytes); });
//
// The lambda is called on the reactor's core and returns the Task. Its captures by reference stay
// valid, because the caller's frame is blocked. The caller runs the reactor's loop itself where it
// may (class Lead); otherwise it sleeps on a futex.
//
// Must not be called on a reactor's own core (it would wait for itself), in a forked child, or
// after stop().
#pragma once
#include <atomic>
#include <coroutine>
#include <optional>
#include <type_traits>
#include <utility>

#include "ros2s/runtime/os_reactor.h"

namespace ros2s {

namespace blocking_detail {

// A one-shot latch between the core that completes the task and the waiting thread.
class Latch {
  public:
    explicit Latch(const OsReactor& reactor) noexcept : reactor_(reactor) {}
    // At the beginning and at the end of the task, on the core. The latch may be destroyed after
    // open().
    void begin() noexcept { begun_ = reactor_.turns(); }
    void open() noexcept;
    [[nodiscard]] bool is_open() const noexcept {
        return state_.load(std::memory_order_acquire) == opened;
    }
    void wait() noexcept;
    // Once it is open.
    [[nodiscard]] bool took_one_turn() const noexcept { return took_one_turn_; }

  private:
    enum State : uint32_t { closed, asleep, opened };
    const OsReactor& reactor_;
    uint64_t begun_ = 0;
    bool took_one_turn_ = false;
    std::atomic<uint32_t> state_ = closed;
};

// The frame that moves the task to the core. The caller's thread creates and destroys it.
struct Carrier {
    struct promise_type {
        Latch& latch;
        template <class... Rest>
        explicit promise_type(Latch& owner, Rest&...) noexcept : latch(owner) {}
        static void* operator new(size_t size) { return allocate_frame(size); }
        static void operator delete(void* frame, size_t size) noexcept { free_frame(frame, size); }
        Carrier get_return_object() noexcept {
            return {std::coroutine_handle<promise_type>::from_promise(*this)};
        }
        std::suspend_always initial_suspend() const noexcept { return {}; }
        struct Finish {
            bool await_ready() const noexcept { return false; }
            void await_suspend(std::coroutine_handle<promise_type> self) const noexcept {
                self.promise().latch.open();
            }
            void await_resume() const noexcept {}
        };
        Finish final_suspend() const noexcept { return {}; }
        void return_void() const noexcept {}
        [[noreturn]] void unhandled_exception() const noexcept { std::terminate(); }
    };
    std::coroutine_handle<promise_type> handle;
};

void carry_out(OsReactor& reactor, Latch& latch, Carrier carrier) noexcept;

template <class F, class T>
Carrier carry(Latch& latch, F& function, std::optional<T>& result) {
    latch.begin();
    result.emplace(co_await function());
}
template <class F>
Carrier carry(Latch& latch, F& function) {
    latch.begin();
    co_await function();
}

template <class T>
struct Value;
template <class T>
struct Value<Task<T>> {
    using type = T;
};

}  // namespace blocking_detail

template <class F>
auto run_blocking(OsReactor& reactor, F&& function) {
    using T = blocking_detail::Value<std::invoke_result_t<F&>>::type;
    blocking_detail::Latch latch(reactor);
    if constexpr (std::is_void_v<T>) {
        blocking_detail::carry_out(reactor, latch, blocking_detail::carry(latch, function));
    } else {
        std::optional<T> result;
        blocking_detail::carry_out(reactor, latch, blocking_detail::carry(latch, function, result));
        return T(std::move(*result));
    }
}

}  // namespace ros2s
