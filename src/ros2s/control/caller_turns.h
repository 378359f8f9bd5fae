// CallerTurns: how many calls of one caller are in progress at once. Further ones wait for their
// turn, in no order, until their deadlines. So a caller with many calls delays itself alone.
//
// Used on one core. It outlives the turns.
#pragma once
#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "ros2s/runtime/call.h"
#include "ros2s/runtime/reactor.h"
#include "ros2s/runtime/task.h"

namespace ros2s::control {

class CallerTurns {
  public:
    CallerTurns(Reactor& reactor, size_t at_once) : reactor_(reactor), at_once_(at_once) {}

    class [[nodiscard]] Turn {
      public:
        Turn(Turn&& other) noexcept
            : of_(std::exchange(other.of_, nullptr)), caller_(std::move(other.caller_)) {}
        Turn(const Turn&) = delete;
        Turn& operator=(const Turn&) = delete;
        Turn& operator=(Turn&&) = delete;
        ~Turn() {
            if (of_ != nullptr) of_->end(caller_);
        }

      private:
        friend class CallerTurns;
        Turn(CallerTurns& of, std::string caller) : of_(&of), caller_(std::move(caller)) {
            ++of_->running_[caller_];
        }
        CallerTurns* of_;
        std::string caller_;
    };

    // Errors: deadline, cancelled.
    Task<Result<Turn>> take(const Call& call, std::string caller) {
        constexpr Duration pause = std::chrono::milliseconds(5);
        while (running(caller) >= at_once_) {
            const Time now = reactor_.now();
            ROS2S_CO_TRY(call.check(now));
            (void)co_await sleep_for(reactor_, std::min(pause, call.deadline - now), call.stop);
        }
        co_return Turn(*this, std::move(caller));
    }
    [[nodiscard]] size_t running(const std::string& caller) const {
        const auto found = running_.find(caller);
        return found == running_.end() ? 0 : found->second;
    }

  private:
    void end(const std::string& caller) {
        const auto found = running_.find(caller);
        if (--found->second == 0) running_.erase(found);
    }
    Reactor& reactor_;
    const size_t at_once_;
    std::map<std::string, size_t> running_;
};

}  // namespace ros2s::control
