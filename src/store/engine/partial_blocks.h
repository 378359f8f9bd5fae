// PartialBlocks: the bytes of the blocks of a core that small writes changed last. The next small
// write of such a block then needs no read from the media. A program that appends small pieces, as
// to a log, changes one block many times.
//
// Invariant: the bytes are the visible ones. A transaction takes out each block that it changes
// while it has the locks, and adds the new bytes after its group has become visible.
//
// Used on its core. Does no I/O and does not suspend.
#pragma once
#include <array>
#include <cstdint>
#include <utility>

#include "ros2s/base/bytes.h"
#include "ros2s/base/crc32c.h"

namespace ros2s::engine {

class PartialBlocks {
  public:
    static constexpr size_t blocks_max = 64;

    // A block of an array. `array`: a hash of its container, object, dkey and akey.
    struct Name {
        uint64_t array = 0;
        uint64_t block = 0;
        friend bool operator==(const Name&, const Name&) = default;
    };
    // Takes the block out. Returns its bytes if they are here, and as they were. `crc`: that of its
    // visible bytes.
    [[nodiscard]] AlignedBuffer take(const Name& name, uint32_t crc) {
        for (HeldBlock& slot : slots_) {
            if (slot.name != name || slot.bytes.size() == 0) continue;
            AlignedBuffer bytes = std::exchange(slot.bytes, {});
            return crc32c(bytes.bytes()) == crc ? std::move(bytes) : AlignedBuffer();
        }
        return {};
    }
    // Takes out `count` blocks from `first` on.
    void drop(const Name& first, uint64_t count) {
        for (HeldBlock& slot : slots_) {
            const bool is_one = slot.name.array == first.array &&
                                slot.name.block - first.block < count;  // also if it is less
            if (is_one) slot.bytes = {};
        }
    }
    // Adds a block that is not here, in place of the oldest one.
    void add(const Name& name, AlignedBuffer bytes) {
        slots_[added_++ % blocks_max] = {name, std::move(bytes)};
    }
    [[nodiscard]] bool was_used() const { return added_ > 0; }

  private:
    struct HeldBlock {
        Name name;
        AlignedBuffer bytes;  // none: the slot is free
    };
    std::array<HeldBlock, blocks_max> slots_;
    uint64_t added_ = 0;
};

}  // namespace ros2s::engine
