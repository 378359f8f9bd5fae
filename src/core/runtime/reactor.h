// Reactor: one core's loop, and all that code on this core may wait for: its turn, time, another
// core, the disk. There are two implementations: OsReactor (a thread, io_uring) and sim::World's
// (virtual time, an order drawn from a seed). The same coroutines run on both.
//
// Thread rule: all functions are called on the reactor's own core, except post_remote(), wake(),
// now(), wall_time() and is_current().
#pragma once
#include <coroutine>
#include <cstddef>
#include <cstdint>

#include "ros2s/base/random.h"
#include "ros2s/base/result.h"
#include "ros2s/runtime/stop.h"
#include "ros2s/runtime/task.h"
#include "ros2s/runtime/time.h"

namespace ros2s {

class Ring;

// An entry of a reactor's timer queue. It is part of the waiting coroutine's frame. It is armed at
// most once at a time, and disarmed before it is destroyed.
struct Timer {
    Time at{};
    std::coroutine_handle<> waiter{};
    uint64_t order = 0;  // used by the reactor: breaks ties, in the order of arming
    size_t place = 0;    // used by the reactor: the position in the queue
    bool armed = false;
};

// A handle that is being posted to another core. It is part of the suspended frame until the handle
// resumes.
struct RemotePost {
    std::coroutine_handle<> handle{};
    RemotePost* next = nullptr;
};

// An event source that the loop checks each turn: a ring in shared memory, a network worker.
class Poller {
  public:
    virtual ~Poller() = default;
    // Does the work that there is, in bounded time. Returns true if there was any.
    virtual bool poll() noexcept = 0;
    // Called before the core sleeps. Checks once more, and requests a wake-up from the other side,
    // unless that calls Reactor::wake() anyway. Returns false if work has arrived: then the core
    // does not sleep.
    virtual bool prepare_sleep() noexcept = 0;
    // Follows every prepare_sleep().
    virtual void woke() noexcept {}
};

class Reactor {
  public:
    virtual ~Reactor() = default;

    [[nodiscard]] virtual Time now() const noexcept = 0;
    // When the loop's turn began, without a look at the clock: for what is counted or compared once
    // per request. On its core.
    [[nodiscard]] virtual Time turn_time() const noexcept { return now(); }
    // The time since `began`, a turn_time(). Reads the clock only in the turn in which that was.
    [[nodiscard]] Duration since(Time began) const noexcept {
        const Time turn = turn_time();
        return (turn > began ? turn : now()) - began;
    }
    [[nodiscard]] virtual WallTime wall_time() const noexcept = 0;
    // For jitter and sampling. An observer of its numbers can predict the next ones.
    [[nodiscard]] virtual Random& random() noexcept = 0;
    // For all that a peer sees, and for names.
    [[nodiscard]] virtual const Secrets& secrets() const noexcept = 0;
    [[nodiscard]] virtual bool is_current() const noexcept = 0;

    // Resumes the handle in a later step of the loop, in order of posting.
    virtual void post(std::coroutine_handle<> handle) noexcept = 0;
    // The same from any thread.
    virtual void post_remote(RemotePost& post) noexcept = 0;
    // May be called from any thread, after work was made visible to a Poller by a sequentially
    // consistent store. Ends the core's sleep, so that it polls. Costs one load if the core does
    // not sleep.
    virtual void wake() noexcept = 0;

    // Between turns of a coroutine that waits for work which is about to arrive: lets other threads
    // run, as between polls. Does nothing if the reactor does not poll.
    virtual void relax() noexcept {}

    // At `timer.at`, `timer.armed` becomes false and the waiter is posted.
    virtual void arm(Timer& timer) noexcept = 0;
    virtual void disarm(Timer& timer) noexcept = 0;

    virtual void attach(Poller& poller) = 0;
    virtual void detach(Poller& poller) noexcept = 0;

    // Disk and descriptor I/O of this core. Null in a simulation, which simulates its devices.
    [[nodiscard]] virtual Ring* ring() noexcept = 0;
};

// co_await yield(reactor): runs all other ready work first.
[[nodiscard]] inline auto yield(Reactor& reactor) noexcept {
    struct Awaiter {
        Reactor& reactor;
        bool await_ready() const noexcept { return false; }
        void await_suspend(std::coroutine_handle<> handle) const noexcept { reactor.post(handle); }
        void await_resume() const noexcept {}
    };
    return Awaiter{reactor};
}

// co_await hop(reactor): continues the coroutine on `reactor`'s core. Costs nothing if it is
// already there.
[[nodiscard]] inline auto hop(Reactor& reactor) noexcept {
    struct Awaiter {
        Reactor& reactor;
        RemotePost post{};
        bool await_ready() const noexcept { return reactor.is_current(); }
        void await_suspend(std::coroutine_handle<> handle) noexcept {
            post.handle = handle;
            reactor.post_remote(post);
        }
        void await_resume() const noexcept {}
    };
    return Awaiter{reactor};
}

// Runs `task` on `reactor`'s core and returns to `home`'s.
template <class T>
Task<T> on(Reactor& reactor, Reactor& home, Task<T> task) {
    co_await hop(reactor);
    if constexpr (std::is_void_v<T>) {
        co_await std::move(task);
        co_await hop(home);
    } else {
        T result = co_await std::move(task);
        co_await hop(home);
        co_return result;
    }
}

// co_await sleep_until(reactor, time, stop): true at that time, false if stopped before.
class [[nodiscard]] sleep_until {
  public:
    sleep_until(Reactor& reactor, Time at, StopToken stop = {}) noexcept
        : reactor_(reactor), stop_(stop), callback_(*this) {
        timer_.at = at;
    }
    sleep_until& operator=(sleep_until&&) = delete;
    ~sleep_until() {
        if (timer_.armed) reactor_.disarm(timer_);
    }
    bool await_ready() const noexcept { return stop_.stop_requested(); }
    void await_suspend(std::coroutine_handle<> handle) noexcept {
        timer_.waiter = handle;
        reactor_.arm(timer_);
    }
    bool await_resume() const noexcept { return !stop_.stop_requested(); }

  private:
    struct Stopped : StopCallback {
        explicit Stopped(sleep_until& owner) noexcept
            : StopCallback(owner.stop_.source(),
                           [](StopCallback& self) noexcept {
                               static_cast<Stopped&>(self).owner_.stopped();
                           }),
              owner_(owner) {}
        sleep_until& owner_;
    };
    void stopped() noexcept {
        if (!timer_.armed) return;
        reactor_.disarm(timer_);
        reactor_.post(timer_.waiter);
    }
    Reactor& reactor_;
    StopToken stop_;
    Timer timer_;
    Stopped callback_;
};

class [[nodiscard]] sleep_for : public sleep_until {
  public:
    sleep_for(Reactor& reactor, Duration duration, StopToken stop = {}) noexcept
        : sleep_until(reactor, reactor.now() + duration, stop) {}
};

}  // namespace ros2s
