// Deadline: a stop token that also fires at a time, for waits that take a token. All waits on it
// end before finish() is called. finish() returns before it is destroyed. Used on one core.
#pragma once
#include "ros2s/base/check.h"
#include "ros2s/base/result.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/reactor.h"
#include "ros2s/runtime/stop.h"

namespace ros2s::fabric {

class Deadline {
  public:
    Deadline(Reactor& reactor, Time at, StopToken outer)
        : reactor_(reactor), at_(at), nursery_(reactor, 1), outer_(outer, source_) {
        const bool started = nursery_.try_spawn(watch(*this));
        ROS2S_CHECK(started);
        if (outer.stop_requested()) source_.request_stop();
    }
    [[nodiscard]] StopToken token() noexcept { return source_.token(); }
    [[nodiscard]] bool passed() const noexcept { return passed_; }
    // The error of a wait that was stopped: deadline or cancelled.
    [[nodiscard]] std::unexpected<Error> error() const {
        return fail(passed_ ? Code::deadline : Code::cancelled);
    }
    Task<> finish() {
        done_.request_stop();
        co_await nursery_.join();
    }

  private:
    static Task<> watch(Deadline& self) {
        if (!co_await sleep_until(self.reactor_, self.at_, self.done_.token())) co_return;
        self.passed_ = true;
        self.source_.request_stop();
    }
    Reactor& reactor_;
    Time at_;
    bool passed_ = false;
    StopSource source_;
    StopSource done_;
    Nursery nursery_;
    ForwardedStop outer_;
};

}  // namespace ros2s::fabric
