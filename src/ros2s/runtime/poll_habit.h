// PollHabit: whether a core polls in its next wait. Polling saves the wake-up of a wait that ends
// soon, and wastes processor time in one that does not. A core cannot know which one it begins, so
// it goes by the last ones: after n polls in vain in a row it leaves out the next 2^n - 1 waits.
//
// The idea is that of the halt polling of Linux's KVM, with waits counted instead of measured: a
// measured wait contains the wake-up that polling would save.
#pragma once
#include <algorithm>
#include <cstdint>

namespace ros2s {

class PollHabit {
  public:
    // At most so many polls in vain in a row count. Then one wait of 1,024 polls.
    static constexpr uint32_t in_vain_most = 10;

    // A wait begins. True: it polls first. Then found() or in_vain() says how that ended.
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

}  // namespace ros2s
