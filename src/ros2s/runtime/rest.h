// RestWatch: detects that a process has become idle, so that it can return memory to the kernel.
//
// glibc returns free memory only at the end of a heap and keeps the rest. After many concurrent
// requests a process therefore keeps its largest size. Returning that memory costs milliseconds,
// and later work pays page faults. It is therefore done once after work, when there is no more.
//
// The owner calls it every few seconds, always on the same thread.
#pragma once
#include <cstdint>

namespace ros2s {

class RestWatch {
  public:
    // Less work than this between two calls is idle. With less than this since the last time there
    // is nothing to return.
    static constexpr uint64_t least_work = 64;

    // `work` is a counter of work done. Returns true once after work, when the process is idle.
    // Slow work adds up.
    [[nodiscard]] bool came_to_rest(uint64_t work) noexcept {
        const bool rests = work - last_ < least_work;
        last_ = work;
        if (!rests || !(is_opened_ || work - given_back_ >= least_work)) return false;
        is_opened_ = false;
        given_back_ = work;
        return true;
    }

  private:
    uint64_t last_ = 0;
    uint64_t given_back_ = 0;  // value of `work` at the last time
    bool is_opened_ = true;    // opening counts as work
};

// Returns the allocator's free memory to the kernel. Any thread; other threads may wait for
// moments.
void give_free_memory_back() noexcept;

}  // namespace ros2s
