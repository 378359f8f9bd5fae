// The content of one akey in MemoryStore: a single value, or an array as its written blocks. Copies
// share their blocks, which never change once they are in a map.
//
// Invariant: bytes at and beyond `size` within the last block are zero.
#pragma once
#include <array>
#include <map>
#include <memory>
#include <string>

#include "ros2s/object/object_store.h"

namespace ros2s::object {

struct MemoryEntry {
    struct Block {
        std::array<std::byte, block_bytes> bytes{};
        std::array<char, seal_bytes> seal{};
    };

    bool is_array = false;
    std::string value;                                        // of a single value
    uint64_t size = 0;                                        // of the array or value
    std::map<uint64_t, std::shared_ptr<const Block>> blocks;  // by number; absent: a hole
    Epoch epoch{};

    // `seals`: empty, or those of all blocks.
    void write(uint64_t offset, ConstBytes bytes, std::string_view seals = {});
    void punch(Extent extent);
    void set_size(uint64_t size_now);
    // Fills `into` with the array's bytes at `offset`. Holes and bytes beyond the end are zeros.
    void read(uint64_t offset, Bytes into) const;
    [[nodiscard]] std::string seals(Extent extent) const;

  private:
    // The block to modify: a copy of the present one without its seal, or zeros.
    [[nodiscard]] std::shared_ptr<Block> block_copy(uint64_t number) const;
};

}  // namespace ros2s::object
