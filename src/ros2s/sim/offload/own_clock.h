// OwnClock: a core of the world, as a machine sees it whose clock is set separately. The engine's
// machine has the world's clock.
#pragma once
#include "ros2s/runtime/reactor.h"

namespace ros2s::sim {

class OwnClock final : public Reactor {
  public:
    explicit OwnClock(Reactor& core)
        : core_(core), at_start_(core.wall_time() - core.now().time_since_epoch()) {}

    // The difference to the clock at the start.
    void set(Duration offset) { offset_ = offset; }

    Time now() const noexcept override { return core_.now(); }
    WallTime wall_time() const noexcept override {
        return at_start_ + core_.now().time_since_epoch() + offset_;
    }
    Random& random() noexcept override { return core_.random(); }
    const Secrets& secrets() const noexcept override { return core_.secrets(); }
    bool is_current() const noexcept override { return core_.is_current(); }
    void post(std::coroutine_handle<> handle) noexcept override { core_.post(handle); }
    void post_remote(RemotePost& post) noexcept override { core_.post_remote(post); }
    void wake() noexcept override { core_.wake(); }
    void arm(Timer& timer) noexcept override { core_.arm(timer); }
    void disarm(Timer& timer) noexcept override { core_.disarm(timer); }
    void attach(Poller& poller) override { core_.attach(poller); }
    void detach(Poller& poller) noexcept override { core_.detach(poller); }
    Ring* ring() noexcept override { return core_.ring(); }

  private:
    Reactor& core_;
    const WallTime at_start_;
    Duration offset_{};
};

}  // namespace ros2s::sim
