#include "timer_queue.h"

#include "ros2s/base/check.h"

namespace ros2s {

void TimerQueue::arm(Timer& timer) {
    ROS2S_CHECK(!timer.armed);
    timer.armed = true;
    timer.order = ++armed_;
    heap_.push_back(&timer);
    sift_up(heap_.size() - 1, timer);
}

void TimerQueue::disarm(Timer& timer) noexcept {
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

void TimerQueue::sift_up(size_t place, Timer& timer) noexcept {
    while (place > 0) {
        const size_t parent = (place - 1) / 2;
        if (!before(timer, *heap_[parent])) break;
        put(place, *heap_[parent]);
        place = parent;
    }
    put(place, timer);
}

void TimerQueue::sift_down(size_t place, Timer& timer) noexcept {
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

}  // namespace ros2s
