// RestWatch: whether a process has come to rest, so that it gives back the memory that its work
// took.
//
// glibc returns what is freed only at the end of a heap, and keeps what is freed below: after many
// requests at once a process stays as large as it was at its busiest. To give that back costs
// milliseconds, and the work that follows its page faults; so it is done once after work, when
// there is none.
//
// Whoever owns it calls it every few seconds, always on the same thread.
#pragma once
#include <cstdint>

namespace ros2s {

class RestWatch {
  public:
    // Less than this between two calls is rest, and less than this since the last time is nothing
    // to give back for.
    static constexpr uint64_t least_work = 64;

    // `work` grows with what is done. True once after work, when there is rest. Slow work adds up.
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
    uint64_t given_back_ = 0;  // the work at the last time
    bool is_opened_ = true;    // which is work, too
};

// Gives the allocator's free memory back to the kernel. Any thread; others wait for moments.
void give_free_memory_back() noexcept;

}  // namespace ros2s
