// OwnClock: a core of the world, as a machine sees it whose clock is set separately. The engine's
// machine has the world's clock.
#pragma once
#include "ros2s/runtime/test_support/forwarding_reactor.h"

namespace ros2s::sim {

class OwnClock final : public ForwardingReactor {
  public:
    explicit OwnClock(Reactor& core)
        : ForwardingReactor(core), at_start_(core.wall_time() - core.now().time_since_epoch()) {}

    // The difference to the clock at the start.
    void set(Duration offset) { offset_ = offset; }

    WallTime wall_time() const noexcept override {
        return at_start_ + now().time_since_epoch() + offset_;
    }

  private:
    const WallTime at_start_;
    Duration offset_{};
};

}  // namespace ros2s::sim
