// TimerQueue: armed timers, earliest first, equal times in arming order. A binary heap whose
// entries have their position, so disarming is O(log n), too.
#pragma once
#include <vector>

#include "ros2s/base/check.h"
#include "ros2s/runtime/reactor.h"

namespace ros2s {

class TimerQueue {
  public:
    [[nodiscard]] bool empty() const noexcept { return heap_.empty(); }
    [[nodiscard]] Timer& earliest() const noexcept { return *heap_.front(); }
    void arm(Timer& timer) {
        ROS2S_CHECK(!timer.armed);
        timer.armed = true;
        timer.order = ++armed_;
        heap_.push_back(&timer);
        sift_up(heap_.size() - 1, timer);
    }
    void disarm(Timer& timer) noexcept {
        ROS2S_CHECK(timer.armed && heap_[timer.place] == &timer);
        timer.armed = false;
        Timer& last = *heap_.back();
        heap_.pop_back();
        if (&last == &timer) return;
        const size_t hole = timer.place;
        if (hole > 0 && before(last, *heap_[(hole - 1) / 2])) {
            sift_up(hole, last);
        } else {
            sift_down(hole, last);
        }
    }

  private:
    static bool before(const Timer& a, const Timer& b) noexcept {
        return a.at != b.at ? a.at < b.at : a.order < b.order;
    }
    void put(size_t place, Timer& timer) noexcept {
        heap_[place] = &timer;
        timer.place = place;
    }
    void sift_up(size_t place, Timer& timer) noexcept {
        while (place > 0) {
            const size_t parent = (place - 1) / 2;
            if (!before(timer, *heap_[parent])) break;
            put(place, *heap_[parent]);
            place = parent;
        }
        put(place, timer);
    }
    void sift_down(size_t place, Timer& timer) noexcept {
        for (;;) {
            size_t child = place * 2 + 1;
            if (child >= heap_.size()) break;
            if (child + 1 < heap_.size() && before(*heap_[child + 1], *heap_[child])) ++child;
            if (!before(*heap_[child], timer)) break;
            put(place, *heap_[child]);
            place = child;
        }
        put(place, timer);
    }

    std::vector<Timer*> heap_;
    uint64_t armed_ = 0;
};

}  // namespace ros2s
