// TimerQueue: armed timers, earliest first, equal times in arming order. A binary heap whose
// entries have their position, so disarming is O(log n), too.
#pragma once
#include <vector>

#include "ros2s/runtime/reactor.h"

namespace ros2s {

class TimerQueue {
  public:
    [[nodiscard]] bool empty() const noexcept { return heap_.empty(); }
    [[nodiscard]] Timer& earliest() const noexcept { return *heap_.front(); }
    void arm(Timer& timer);
    void disarm(Timer& timer) noexcept;

  private:
    static bool before(const Timer& a, const Timer& b) noexcept {
        return a.at != b.at ? a.at < b.at : a.order < b.order;
    }
    void put(size_t place, Timer& timer) noexcept {
        heap_[place] = &timer;
        timer.place = place;
    }
    void sift_up(size_t place, Timer& timer) noexcept;
    void sift_down(size_t place, Timer& timer) noexcept;

    std::vector<Timer*> heap_;
    uint64_t armed_ = 0;
};

}  // namespace ros2s
