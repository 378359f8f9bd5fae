// PollHabit and PollBan decide whether a core polls before it sleeps.
//
// PollHabit decides for one wait. Polling saves the wake-up of a wait that ends soon, and wastes
// processor time in a longer one. A core cannot predict which one it begins, so it uses the results
// of the last ones: after n polls in a row that found nothing, it does not poll in the next 2^n - 1
// waits.
//
// The idea is that of the halt polling of Linux's KVM, with waits counted instead of measured: a
// measured wait contains the wake-up that polling would save.
#pragma once
#include <algorithm>
#include <cstdint>

#include "ros2s/runtime/time.h"

namespace ros2s {

class PollHabit {
  public:
    // At most this many polls that found nothing are counted. Then one wait in 1,024 polls.
    static constexpr uint32_t in_vain_most = 10;

    // A wait begins. True: it polls first, then calls found() or in_vain().
    [[nodiscard]] bool begin() noexcept {
        if (left_out_ == 0) return true;
        --left_out_;
        return false;
    }
    void found() noexcept { in_vain_ = 0; }
    void in_vain() noexcept {
        in_vain_ = std::min(in_vain_ + 1, in_vain_most);
        left_out_ = (1U << in_vain_) - 1;
    }

  private:
    uint32_t in_vain_ = 0;
    uint32_t left_out_ = 0;
};

// PollBan: the time without polls after a yield in which another process computed for a whole time
// slice. Beside such a process polling gains nothing, so the time doubles. It starts again at
// `least` if polls found work often since the last such yield: then the other process computes
// rarely, or the machine itself stood still.
class PollBan {
  public:
    static constexpr Duration least = std::chrono::milliseconds(10);
    static constexpr Duration most = std::chrono::milliseconds(640);
    static constexpr uint32_t finds_often = 64;

    void found() noexcept { ++finds_; }
    // Returns the time without polls that begins now.
    [[nodiscard]] Duration contended() noexcept {
        last_ = finds_ < finds_often ? std::clamp(2 * last_, least, most) : least;
        finds_ = 0;
        return last_;
    }

  private:
    Duration last_{};
    uint32_t finds_ = 0;
};

}  // namespace ros2s
