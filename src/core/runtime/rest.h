// RestWatch: detects that a process has become idle, so that it can return memory to the kernel.
//
// glibc returns free memory only at the end of a heap and keeps the rest. After many concurrent
// requests a process therefore keeps its largest size. Returning that memory takes milliseconds and
// causes page faults later. It is therefore done once, when the process becomes idle after work.
//
// The owner calls it every few seconds, always on the same thread.
#pragma once
#include <malloc.h>

#include <algorithm>
#include <cstdint>

namespace ros2s {

class RestWatch {
  public:
    // A process with less work than this between two calls is idle. With less work than this since
    // the last return, there is nothing to return.
    static constexpr uint64_t least_work = 64;
    // A process is also idle with less than 1/part of its greatest work between two calls since the
    // last return. Heartbeats and a few users therefore do not keep the memory that many users
    // needed.
    static constexpr uint64_t part = 16;

    // `work` is a counter of work done. Returns true once when the process becomes idle after work.
    // Slow work adds up over several calls.
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
    uint64_t most_ = 0;        // the greatest between two calls since the last return
    uint64_t given_back_ = 0;  // the value of `work` at the last return
    bool is_opened_ = true;    // opening counts as work
};

// Returns the allocator's free memory to the kernel. Any thread. Other threads may have to wait
// briefly.
inline void give_free_memory_back() noexcept { ::malloc_trim(0); }

}  // namespace ros2s
