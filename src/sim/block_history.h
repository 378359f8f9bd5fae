// BlockHistory: the blocks of a file that several clients write and read concurrently, and the
// values that each read may return. Every write fills a block with a unique stamp.
//
// A read must return a write that began before the end of the read. It must not return one that was
// replaced before the read began, that is: a later write began after the older one had certainly
// taken effect, and itself took effect. A write has certainly taken effect when it was
// acknowledged, or when a completed read returned it. This detects a lost write, a write that is
// done again later, and a stale copy.
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
    // A write begins. Returns its stamp.
    [[nodiscard]] uint64_t begin(size_t block, Time now);
    void acknowledged(size_t block, uint64_t stamp, Time now);
    // The problem with a read that returned this stamp; empty: none.
    [[nodiscard]] std::string found(size_t block, uint64_t stamp, Time begin, Time end);

  private:
    static constexpr Time never = Time::max();
    struct Write {
        Time begin = Time::min();
        Time known = Time::min();  // from then on it has certainly taken effect
    };
    // By stamp. The first is the initial content.
    std::vector<std::vector<Write>> blocks_;
};

}  // namespace ros2s::sim
