// SlowAnswers: the time that others have waited for an owner's answers to recalls of its leases.
// Too much of it in a minute bans the owner: it gets no leases for a while.
//
// A plain value, used on one core.
#pragma once
#include <algorithm>
#include <chrono>
#include <optional>

#include "ros2s/runtime/time.h"

namespace ros2s::object {

class SlowAnswers {
  public:
    static constexpr Duration banned_for = std::chrono::seconds(60);
    // Answers that take less are not counted.
    static constexpr Duration prompt_most = std::chrono::milliseconds(20);

    // An answer for which others have waited since `begun` is there, or will not come. True: the
    // owner is banned from now on, because others have waited for `most` in a minute. `is_gone`:
    // the holder does not ask any more. If it is the first in the minute, it bans nobody: a machine
    // may have failed.
    bool note(Time begun, Time now, Duration most, bool is_gone = false) {
        if (now - begun < prompt_most || is_banned(now)) return false;
        if (now >= minute_ + minute) {
            minute_ = now;
            waited_ = {};
            first_gone_.reset();
        }
        const bool is_first = is_gone && begun < first_gone_.value_or(now);
        if (is_gone && !first_gone_) first_gone_ = now;
        // Answers to several recalls come together.
        waited_ += now - std::max(begun, waited_upto_);
        waited_upto_ = now;
        if (waited_ < most || is_first) return false;
        banned_until_ = now + banned_for;
        return true;
    }
    [[nodiscard]] bool is_banned(Time now) const { return now < banned_until_; }
    [[nodiscard]] Time banned_until() const { return banned_until_; }
    // A new value says the same.
    [[nodiscard]] bool is_past(Time now) const {
        return !is_banned(now) && minute_ + minute <= now;
    }

  private:
    static constexpr Duration minute = std::chrono::minutes(1);
    Time minute_{};  // when the count of the next one began
    Duration waited_{};
    Time waited_upto_{};
    std::optional<Time> first_gone_;  // when it was
    Time banned_until_{};
};

}  // namespace ros2s::object
