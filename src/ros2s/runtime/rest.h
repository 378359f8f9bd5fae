// RestWatch: detects that a process has become idle, so that it can return memory to the kernel.
//
// glibc returns free memory only at the end of a heap and keeps the rest. After many concurrent
// requests a process therefore keeps its largest size. Returning that memory costs milliseconds,
// and later work pays page faults. It is therefore done once after work, when there is little or
// none.
//
// The owner calls it every few seconds, always on the same thread.
#pragma once
#include <algorithm>
#include <cstdint>

namespace ros2s {

class RestWatch {
  public:
    // Less work than this between two calls is idle. With less than this since the last time there
    // is nothing to return.
    static constexpr uint64_t least_work = 64;
    // So is this part of the most work between two calls since the last time: heartbeats and a few
    // users do not keep the memory of many.
    static constexpr uint64_t part = 16;

    // `work` is a counter of work done. Returns true once after work, when the process is idle.
    // Slow work adds up.
    [[nodiscard]] bool came_to_rest(uint64_t work) noexcept {
        const uint64_t done = work - last_;
        last_ = work;
        most_ = std::max(most_, done);
        const bool rests = done < std::max(least_work, most_ / part);
        if (!rests || !(is_opened_ || work - given_back_ >= least_work)) return false;
        is_opened_ = false;
        given_back_ = work;
        most_ = 0;
        return true;
    }

  private:
    uint64_t last_ = 0;
    uint64_t most_ = 0;        // between two calls since the last time
    uint64_t given_back_ = 0;  // value of `work` at the last time
    bool is_opened_ = true;    // opening counts as work
};

// Returns the allocator's free memory to the kernel. Any thread; other threads may wait for
// moments.
void give_free_memory_back() noexcept;

}  // namespace ros2s
