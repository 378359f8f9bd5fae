// Nursery: the only way to run tasks concurrently. It owns its children, limits how many run at
// once, and is joined before it is destroyed. There are no detached tasks.
//
//     Nursery nursery(reactor, 16);
//     for (auto& part : parts) co_await nursery.spawn(read_part(part));
//     co_await nursery.join();
//
// A child starts at once, on the caller's stack, and runs until it first waits. A child returns
// results through its arguments. `spawn` takes values, never a lambda with captures.
#pragma once
#include <cstddef>

#include "ros2s/runtime/sync.h"
#include "ros2s/runtime/task.h"

namespace ros2s {

class Nursery {
  public:
    Nursery(Reactor& reactor, size_t limit) noexcept
        : slots_(reactor, limit), empty_(reactor), limit_(limit) {
        empty_.set();
    }
    ~Nursery() { ROS2S_CHECK(running_ == 0); }
    Nursery& operator=(Nursery&&) = delete;

    [[nodiscard]] size_t running() const noexcept { return running_; }
    [[nodiscard]] size_t limit() const noexcept { return limit_; }

    // Waits while `limit` children run.
    Task<> spawn(Task<> task) {
        co_await slots_.acquire();
        start(std::move(task));
    }
    // If `limit` children run, returns false and destroys the task without starting it.
    [[nodiscard]] bool try_spawn(Task<> task) {
        if (!slots_.try_acquire()) return false;
        start(std::move(task));
        return true;
    }
    // Waits until no child runs.
    Task<> join() {
        while (running_ > 0) co_await empty_;
    }

  private:
    // The frame that contains a child. It frees itself when the child is done.
    struct Child {
        struct promise_type {
            static void* operator new(size_t size) { return allocate_frame(size); }
            static void operator delete(void* frame, size_t size) noexcept {
                free_frame(frame, size);
            }
            Child get_return_object() const noexcept { return {}; }
            std::suspend_never initial_suspend() const noexcept { return {}; }
            std::suspend_never final_suspend() const noexcept { return {}; }
            void return_void() const noexcept {}
            [[noreturn]] void unhandled_exception() const noexcept { std::terminate(); }
        };
    };
    void start(Task<> task) {
        ++running_;
        empty_.reset();
        run(*this, std::move(task));
    }
    static Child run(Nursery& nursery, Task<> task) {
        {
            const Task<> owned = std::move(task);
            co_await std::move(const_cast<Task<>&>(owned));
        }  // the child's frame is destroyed before the nursery is notified
        nursery.slots_.release();
        if (--nursery.running_ == 0) nursery.empty_.set();
    }

    Semaphore slots_;
    Event empty_;
    size_t limit_;
    size_t running_ = 0;
};

}  // namespace ros2s
