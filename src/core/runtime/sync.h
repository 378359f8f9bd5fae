// Event, Semaphore and Mutex for coroutines of one core. Waiters resume through the reactor's
// queue, in order of arrival. Each object is used on one core only and outlives its waiters.
#pragma once
#include <coroutine>
#include <cstddef>
#include <utility>

#include "ros2s/base/check.h"
#include "ros2s/runtime/call.h"
#include "ros2s/runtime/reactor.h"
#include "ros2s/runtime/stop.h"

namespace ros2s {

namespace sync_detail {
struct Waiter {
    std::coroutine_handle<> handle{};
    size_t amount = 0;
    Waiter* next = nullptr;
    StopSource* sleep = nullptr;  // of a waiter with a deadline: ends its sleep. Null: use `handle`
};
class WaiterQueue {
  public:
    [[nodiscard]] bool empty() const noexcept { return first_ == nullptr; }
    [[nodiscard]] Waiter& front() const noexcept { return *first_; }
    void push(Waiter& waiter) noexcept {
        waiter.next = nullptr;
        (last_ != nullptr ? last_->next : first_) = &waiter;
        last_ = &waiter;
    }
    Waiter& pop() noexcept {
        Waiter& waiter = *first_;
        first_ = waiter.next;
        if (first_ == nullptr) last_ = nullptr;
        return waiter;
    }
    void remove(const Waiter& waiter) noexcept {
        Waiter* previous = nullptr;
        for (Waiter* each = first_; each != &waiter; each = each->next) previous = each;
        (previous != nullptr ? previous->next : first_) = waiter.next;
        if (last_ == &waiter) last_ = previous;
    }

  private:
    Waiter* first_ = nullptr;
    Waiter* last_ = nullptr;
};
}  // namespace sync_detail

// Closed until set(); `co_await event` passes while it is set.
class Event {
  public:
    explicit Event(Reactor& reactor) noexcept : reactor_(reactor) {}
    Event& operator=(Event&&) = delete;
    ~Event() { ROS2S_CHECK(waiters_.empty()); }

    [[nodiscard]] bool is_set() const noexcept { return set_; }
    void set() noexcept {
        set_ = true;
        wake_all();
    }
    void reset() noexcept { set_ = false; }
    // Wakes the current waiters and does not change the event, like notify_all of a condition
    // variable.
    void wake_all() noexcept {
        while (!waiters_.empty()) reactor_.post(waiters_.pop().handle);
    }

    auto operator co_await() noexcept {
        struct Awaiter {
            Event& event;
            sync_detail::Waiter waiter{};
            bool await_ready() const noexcept { return event.set_; }
            void await_suspend(std::coroutine_handle<> handle) noexcept {
                waiter.handle = handle;
                event.waiters_.push(waiter);
            }
            void await_resume() const noexcept {}
        };
        return Awaiter{*this};
    }

  private:
    Reactor& reactor_;
    bool set_ = false;
    sync_detail::WaiterQueue waiters_;
};

// `co_await semaphore.acquire(n)`, first come, first served: a large request is not overtaken. n
// must not exceed the initial count; otherwise the call waits forever.
class Semaphore {
  public:
    Semaphore(Reactor& reactor, size_t count) noexcept : reactor_(reactor), available_(count) {}
    Semaphore& operator=(Semaphore&&) = delete;
    ~Semaphore() { ROS2S_CHECK(waiters_.empty()); }

    [[nodiscard]] size_t available() const noexcept { return available_; }
    [[nodiscard]] bool try_acquire(size_t n = 1) noexcept {
        if (!waiters_.empty() || available_ < n) return false;
        available_ -= n;
        return true;
    }
    void release(size_t n = 1) noexcept {
        available_ += n;
        while (!waiters_.empty() && waiters_.front().amount <= available_) {
            available_ -= waiters_.front().amount;
            sync_detail::Waiter& next = waiters_.pop();
            if (next.sleep == nullptr) {
                reactor_.post(next.handle);
            } else {
                std::exchange(next.sleep, nullptr)->request_stop();
            }
        }
    }
    [[nodiscard]] auto acquire(size_t n = 1) noexcept {
        struct Awaiter {
            Semaphore& semaphore;
            sync_detail::Waiter waiter{};
            bool await_ready() const noexcept { return semaphore.try_acquire(waiter.amount); }
            void await_suspend(std::coroutine_handle<> handle) noexcept {
                waiter.handle = handle;
                semaphore.waiters_.push(waiter);
            }
            void await_resume() const noexcept {}
        };
        return Awaiter{*this, {.amount = n}};
    }
    // One unit, in the same order. Waits no longer than the call. Errors: cancelled, deadline.
    Task<Result<>> acquire_for(const Call& call) {
        if (try_acquire()) co_return Result<>{};
        ROS2S_CO_TRY(call.check(reactor_));
        StopSource sleep;
        sync_detail::Waiter waiter{.amount = 1, .sleep = &sleep};
        waiters_.push(waiter);
        {
            const ForwardedStop stop(call.stop, sleep);
            (void)co_await sleep_until(reactor_, call.deadline, sleep.token());
        }
        if (waiter.sleep == nullptr) co_return Result<>{};  // release() popped it
        waiters_.remove(waiter);
        co_return call.check(reactor_);
    }

  private:
    Reactor& reactor_;
    size_t available_;
    sync_detail::WaiterQueue waiters_;
};

// Owns one unit of a semaphore that the caller has acquired, and releases it at the end of the
// scope.
class [[nodiscard]] SemaphoreHold {
  public:
    explicit SemaphoreHold(Semaphore& semaphore) noexcept : semaphore_(&semaphore) {}
    SemaphoreHold(SemaphoreHold&& other) noexcept
        : semaphore_(std::exchange(other.semaphore_, nullptr)) {}
    SemaphoreHold& operator=(SemaphoreHold&&) = delete;
    ~SemaphoreHold() {
        if (semaphore_ != nullptr) semaphore_->release();
    }

  private:
    Semaphore* semaphore_;
};

// WakeOnStop: while it exists, a stop request wakes the coroutines that wait on the event, so that
// a loop can wait for something or a stop, whichever comes first.
class WakeOnStop : StopCallback {
  public:
    WakeOnStop(StopToken stop, Event& event) noexcept
        : StopCallback(stop.source(),
                       [](StopCallback& self) noexcept {
                           static_cast<WakeOnStop&>(self).event_.wake_all();
                       }),
          event_(event) {}

  private:
    Event& event_;
};

}  // namespace ros2s
