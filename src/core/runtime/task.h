// Task<T>: a lazy coroutine. It starts when it is awaited, is awaited once, runs on the awaiting
// coroutine's core (unless it hops, see reactor.h), and belongs to the holder of the Task.
//
// Invariants
// - Completion transfers symmetrically to the awaiter: a million tasks that complete synchronously
//   in a loop do not grow the stack.
// - Destroying a Task destroys its frame, and with it the tasks in the frame.
// - Tasks do not throw. An exception that escapes ends the process.
//
// Parameters are taken by value, or by reference to something that the awaiting frame owns.
#pragma once
#include <coroutine>
#include <exception>
#include <optional>
#include <type_traits>
#include <utility>

#include "ros2s/base/check.h"
#include "ros2s/runtime/frame_pool.h"

namespace ros2s {

template <class T = void>
class Task;

namespace task_detail {

struct PromiseBase {
    std::coroutine_handle<> continuation = std::noop_coroutine();

    static void* operator new(size_t size) { return allocate_frame(size); }
    static void operator delete(void* frame, size_t size) noexcept { free_frame(frame, size); }

    struct Final {
        bool await_ready() const noexcept { return false; }
        template <class P>
        std::coroutine_handle<> await_suspend(std::coroutine_handle<P> done) const noexcept {
            return done.promise().continuation;
        }
        void await_resume() const noexcept {}
    };
    std::suspend_always initial_suspend() const noexcept { return {}; }
    Final final_suspend() const noexcept { return {}; }
    [[noreturn]] void unhandled_exception() const noexcept { std::terminate(); }
};

template <class T>
struct Promise : PromiseBase {
    std::optional<T> value;
    Task<T> get_return_object() noexcept;
    template <class U = T>  // so that `co_return {};` means an empty T
        requires std::is_constructible_v<T, U&&>
    void return_value(U&& result) {
        value.emplace(std::forward<U>(result));
    }
    T take() { return std::move(*value); }
};

template <>
struct Promise<void> : PromiseBase {
    Task<void> get_return_object() noexcept;
    void return_void() const noexcept {}
    void take() const noexcept {}
};

}  // namespace task_detail

template <class T>
class [[nodiscard]] Task {
  public:
    using promise_type = task_detail::Promise<T>;
    using Handle = std::coroutine_handle<promise_type>;

    Task() = default;
    explicit Task(Handle handle) noexcept : handle_(handle) {}
    Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
    Task& operator=(Task&& other) noexcept {
        if (this != &other) {
            if (handle_) handle_.destroy();
            handle_ = std::exchange(other.handle_, {});
        }
        return *this;
    }
    ~Task() {
        if (handle_) handle_.destroy();
    }

    [[nodiscard]] bool valid() const noexcept { return static_cast<bool>(handle_); }

    auto operator co_await() && noexcept {
        struct Awaiter {
            Handle handle;
            bool await_ready() const noexcept { return false; }
            std::coroutine_handle<> await_suspend(std::coroutine_handle<> awaiter) const noexcept {
                handle.promise().continuation = awaiter;
                return handle;
            }
            T await_resume() const { return handle.promise().take(); }
        };
        ROS2S_CHECK(handle_);
        return Awaiter{handle_};
    }

  private:
    Handle handle_{};
};

namespace task_detail {
template <class T>
Task<T> Promise<T>::get_return_object() noexcept {
    return Task<T>(std::coroutine_handle<Promise<T>>::from_promise(*this));
}
inline Task<void> Promise<void>::get_return_object() noexcept {
    return Task<void>(std::coroutine_handle<Promise<void>>::from_promise(*this));
}
}  // namespace task_detail

}  // namespace ros2s
