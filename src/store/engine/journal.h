// Journal: positions in the journal's ring. Positions count blocks from the pool's first record on
// and never decrease ("virtual"); the block of the ring is the remainder. A record never wraps: if
// it does not fit before the ring's end, it is put at the ring's start. A reader that does not find
// the announced id at one of the two looks at the other.
// Does no I/O and does not suspend.
#pragma once
#include <algorithm>
#include <cstdint>

#include "ros2s/base/check.h"

namespace ros2s::engine {

class Journal {
  public:
    Journal(uint64_t first_block, uint64_t blocks) : first_block_(first_block), blocks_(blocks) {}

    // Longer records are refused. Four fit, so that a checkpoint always catches up.
    [[nodiscard]] uint64_t record_blocks_max() const { return std::min(blocks_ / 4, cap_blocks); }
    [[nodiscard]] uint64_t blocks() const { return blocks_; }
    [[nodiscard]] uint64_t used_blocks() const { return head_ - tail_; }
    [[nodiscard]] uint64_t head() const { return head_; }
    // The block of the ring of a virtual position.
    [[nodiscard]] uint64_t in_ring(uint64_t position) const { return position % blocks_; }
    // Byte offset on device 0 of a block of the ring.
    [[nodiscard]] uint64_t offset_of(uint64_t ring_block) const {
        return (first_block_ + ring_block) * 4096;
    }

    // Returns the position at which a record of `blocks` would begin.
    [[nodiscard]] uint64_t next_place(uint64_t blocks) const {
        const uint64_t left = blocks_ - in_ring(head_);
        return blocks <= left ? head_ : head_ + left;
    }
    [[nodiscard]] bool fits(uint64_t blocks) const {
        return next_place(blocks) + blocks - tail_ <= blocks_;
    }
    // Allocates the blocks; returns the virtual position where the record begins.
    uint64_t place(uint64_t blocks) {
        const uint64_t at = next_place(blocks);
        head_ = at + blocks;
        return at;
    }
    // Records before this position are no longer needed.
    void trim(uint64_t position) {
        ROS2S_CHECK(position >= tail_ && position <= head_);
        tail_ = position;
    }
    // Recovery starts at the checkpoint's position in the ring.
    void start_at(uint64_t ring_block) { head_ = tail_ = ring_block; }
    // ... and advances over the records that it finds.
    void follow(uint64_t ring_block, uint64_t blocks) {
        if (in_ring(head_) != ring_block) head_ += blocks_ - in_ring(head_);
        ROS2S_CHECK(in_ring(head_) == ring_block);
        head_ += blocks;
    }

  private:
    static constexpr uint64_t cap_blocks = 2048;  // 8 MiB
    uint64_t first_block_, blocks_;
    uint64_t head_ = 0, tail_ = 0;
};

}  // namespace ros2s::engine
