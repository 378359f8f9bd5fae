#include "ros2s/runtime/alarm.h"

#include <exception>
#include <utility>

namespace ros2s {

// A coroutine, because a reactor's timers resume coroutines. Its frame owns the loop.
struct Alarm::Loop {
    struct Routine {
        struct promise_type {
            std::coroutine_handle<> get_return_object() noexcept {
                return std::coroutine_handle<promise_type>::from_promise(*this);
            }
            std::suspend_never initial_suspend() const noexcept { return {}; }
            std::suspend_never final_suspend() const noexcept { return {}; }
            void return_void() const noexcept {}
            [[noreturn]] void unhandled_exception() const noexcept { std::terminate(); }
        };
        Routine(std::coroutine_handle<> started) : handle(started) {}
        std::coroutine_handle<> handle;
    };
    static Routine run(std::unique_ptr<Loop> self) {
        while (true) {
            co_await std::suspend_always{};
            Alarm* const alarm = self->alarm;
            if (alarm == nullptr) co_return;
            // It was set again after the reactor had posted this.
            if (alarm->reactor_.now() < self->timer.at) {
                alarm->reactor_.arm(self->timer);
                continue;
            }
            self->is_set = false;
            alarm->function_(alarm->owner_);
        }
    }
    explicit Loop(Alarm* owner) noexcept : alarm(owner) {}
    Alarm* alarm;  // null: it is gone
    Timer timer{};
    bool is_set = false;  // and not armed: the reactor has posted the routine
};

Alarm::~Alarm() {
    if (loop_ == nullptr) return;
    if (loop_->is_set && !loop_->timer.armed) {
        loop_->alarm = nullptr;
        return;
    }
    if (loop_->timer.armed) reactor_.disarm(loop_->timer);
    loop_->timer.waiter.destroy();
}

void Alarm::set(Time at) {
    if (loop_ == nullptr) {
        auto loop = std::make_unique<Loop>(this);
        loop_ = loop.get();
        loop_->timer.waiter = Loop::run(std::move(loop)).handle;
    }
    const bool posted = loop_->is_set && !loop_->timer.armed;
    if (loop_->timer.armed) reactor_.disarm(loop_->timer);
    loop_->timer.at = at;
    loop_->is_set = true;
    if (!posted) reactor_.arm(loop_->timer);
}

}  // namespace ros2s
