// CallerTurns: how many calls of one caller are in progress at once. Further ones wait for their
// turn, in order of arrival, until their deadlines. So a caller with many calls delays itself
// alone.
//
// Used on one core. It outlives the turns.
#pragma once
#include <map>
#include <string>
#include <utility>

#include "ros2s/runtime/call.h"
#include "ros2s/runtime/sync.h"

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
        Turn(CallerTurns& of, std::string caller) : of_(&of), caller_(std::move(caller)) {}
        CallerTurns* of_;
        std::string caller_;
    };

    // Errors: deadline, cancelled.
    Task<Result<Turn>> take(const Call& call, std::string caller) {
        ROS2S_CO_TRY(call.check(reactor_));
        Semaphore& turns = callers_.try_emplace(caller, reactor_, at_once_).first->second;
        ROS2S_CO_TRY(co_await turns.acquire_for(call));
        co_return Turn(*this, std::move(caller));
    }
    [[nodiscard]] size_t running(const std::string& caller) const {
        const auto found = callers_.find(caller);
        return found == callers_.end() ? 0 : at_once_ - found->second.available();
    }

  private:
    void end(const std::string& caller) {
        const auto found = callers_.find(caller);
        found->second.release();  // the next waiter has it, if there is one
        if (found->second.available() == at_once_) callers_.erase(found);
    }
    Reactor& reactor_;
    const size_t at_once_;
    std::map<std::string, Semaphore> callers_;  // with calls in progress
};

}  // namespace ros2s::control
