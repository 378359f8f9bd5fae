// BlockMap: the chunk map of one segment of an array in memory: the address and CRC32C of each of
// 256 blocks. It grows to the highest block in use, so that a small file costs little. If a block
// has a seal (object/vocabulary.h), the map has room for the seals of all blocks.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>

#include "ros2s/engine/format/address.h"
#include "ros2s/object/vocabulary.h"

namespace ros2s::engine {

// Blocks of one segment: 1 MiB of an array, one index key.
inline constexpr uint32_t segment_blocks = 256;

class BlockMap {
  public:
    [[nodiscard]] BlockRef at(uint32_t block) const {
        if (block >= capacity_) return {};
        return {{blocks_[block].address}, blocks_[block].crc};
    }
    // A hole is allowed and costs nothing. The block keeps its seal, unless it becomes a hole.
    void set(uint32_t block, BlockRef now) {
        if (block >= capacity_) {
            if (now.address.is_hole()) return;
            grow(block);
        }
        used_ += now.address.is_hole() ? 0 : 1;
        used_ -= at(block).address.is_hole() ? 0 : 1;
        blocks_[block] = {now.address.value, now.address.is_hole() ? 0 : now.crc};
        if (now.address.is_hole()) set_seal(block, {});
    }
    // `seal`: of object::seal_bytes, or empty: none. The block is not a hole then.
    void set_seal(uint32_t block, std::string_view seal) {
        if (seals_ == nullptr) {
            if (seal.empty()) return;
            seals_ = std::make_unique<char[]>(capacity_ * object::seal_bytes);
        }
        char* const at = seals_.get() + block * object::seal_bytes;
        if (seal.empty()) {
            std::memset(at, 0, object::seal_bytes);
        } else {
            std::memcpy(at, seal.data(), object::seal_bytes);
        }
    }
    // Empty: none of the blocks has a seal.
    [[nodiscard]] std::string_view seal(uint32_t block) const {
        if (seals_ == nullptr || block >= capacity_) return {};
        return {seals_.get() + block * object::seal_bytes, object::seal_bytes};
    }
    [[nodiscard]] bool has_seals() const { return seals_ != nullptr; }
    // Blocks that are not holes.
    [[nodiscard]] uint32_t used() const { return used_; }
    // No block at or above this one is in use.
    [[nodiscard]] uint32_t end() const { return capacity_; }
    [[nodiscard]] size_t memory_bytes() const {
        return capacity_ * (sizeof(Block) + (has_seals() ? object::seal_bytes : 0));
    }
    void clear() {
        blocks_.reset();
        seals_.reset();
        capacity_ = used_ = 0;
    }

  private:
    // Side by side, so that a look-up reads one line of the processor's cache; packed, because
    // these are most of the engine's memory.
    struct [[gnu::packed]] Block {
        uint64_t address;
        uint32_t crc;
    };
    void grow(uint32_t block);

    std::unique_ptr<Block[]> blocks_;
    std::unique_ptr<char[]> seals_;  // null, or as many as blocks
    uint32_t capacity_ = 0;
    uint32_t used_ = 0;
};

}  // namespace ros2s::engine
