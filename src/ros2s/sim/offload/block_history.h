// BlockHistory: the blocks of a file that several clients write and read at once, and what each
// read may have found. Every write puts a stamp of its own into a block, all over it.
//
// A read must find a write that had begun by its end, and none that another write had replaced
// before the read began: that one began after the older write had certainly taken effect, and took
// effect itself. A write has certainly taken effect when it was acknowledged, or a read that is
// over had found it. So a lost write, a write that is done again later, and a stale copy are all
// seen.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "ros2s/runtime/time.h"

namespace ros2s::sim {

class BlockHistory {
  public:
    explicit BlockHistory(size_t blocks) : blocks_(blocks, std::vector<Write>(1)) {}

    [[nodiscard]] size_t size() const { return blocks_.size(); }
    // A write begins; its stamp.
    [[nodiscard]] uint64_t begin(size_t block, Time now);
    void acknowledged(size_t block, uint64_t stamp, Time now);
    // What is wrong with a read that found this stamp; empty: nothing.
    [[nodiscard]] std::string found(size_t block, uint64_t stamp, Time begin, Time end);

  private:
    static constexpr Time never = Time::max();
    struct Write {
        Time begin = Time::min();
        Time known = Time::min();  // from then on it has certainly taken effect
    };
    // By stamp; the first is what was there before anybody wrote.
    std::vector<std::vector<Write>> blocks_;
};

}  // namespace ros2s::sim
