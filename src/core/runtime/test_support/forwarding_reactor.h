// ForwardingReactor: passes every call on to another reactor: the base of one that changes a few of
// them. The other one is borrowed and outlives it.
#pragma once
#include "ros2s/runtime/reactor.h"

namespace ros2s {

class ForwardingReactor : public Reactor {
  public:
    explicit ForwardingReactor(Reactor& to) noexcept : to_(to) {}

    Time now() const noexcept override { return to_.now(); }
    WallTime wall_time() const noexcept override { return to_.wall_time(); }
    Random& random() noexcept override { return to_.random(); }
    const Secrets& secrets() const noexcept override { return to_.secrets(); }
    bool is_current() const noexcept override { return to_.is_current(); }
    void post(std::coroutine_handle<> handle) noexcept override { to_.post(handle); }
    void post_remote(RemotePost& post) noexcept override { to_.post_remote(post); }
    void wake() noexcept override { to_.wake(); }
    void relax() noexcept override { to_.relax(); }
    void arm(Timer& timer) noexcept override { to_.arm(timer); }
    void disarm(Timer& timer) noexcept override { to_.disarm(timer); }
    void attach(Poller& poller) override { to_.attach(poller); }
    void detach(Poller& poller) noexcept override { to_.detach(poller); }
    Ring* ring() noexcept override { return to_.ring(); }

  private:
    Reactor& to_;
};

}  // namespace ros2s
