// OwnClock: a core of the world, as a machine sees it whose clock is set separately and may run
// fast or slow. The engine's machine has the world's clock. Times of different machines are not
// compared.
#pragma once
#include "ros2s/runtime/test_support/forwarding_reactor.h"

namespace ros2s::sim {

class OwnClock final : public ForwardingReactor {
  public:
    // `percent`: of the world's pace.
    explicit OwnClock(Reactor& core, int64_t percent = 100)
        : ForwardingReactor(core),
          began_(core.now()),
          percent_(percent),
          at_start_(core.wall_time() - core.now().time_since_epoch()) {}

    // The difference to the clock at the start.
    void set(Duration offset) { offset_ = offset; }

    Time now() const noexcept override {
        return began_ + (ForwardingReactor::now() - began_) * percent_ / 100;
    }
    void arm(Timer& timer) noexcept override {
        // Rounded up: when it fires, its time has come here.
        if (timer.at < Time::max()) {
            timer.at = began_ + ((timer.at - began_) * 100 + Duration(percent_ - 1)) / percent_;
        }
        ForwardingReactor::arm(timer);
    }
    WallTime wall_time() const noexcept override {
        return at_start_ + now().time_since_epoch() + offset_;
    }

  private:
    const Time began_;
    const int64_t percent_;
    const WallTime at_start_;
    Duration offset_{};
};

}  // namespace ros2s::sim
