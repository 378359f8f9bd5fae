// This header tells what a request addresses: an encrypted array, its cells, or a cache's block.
#pragma once
#include "ros2s/cipher/block_cipher.h"
#include "ros2s/object/blocks.h"
#include "ros2s/object/object_store.h"

namespace ros2s::cipher {

[[nodiscard]] inline object::Akey data_akey() { return {"data"}; }
[[nodiscard]] inline object::Akey cells_akey() { return {"data.cells"}; }

[[nodiscard]] inline bool is_data(const object::Akey& akey) { return akey.bytes == "data"; }

// Of an item, condition or operation.
template <class Part>
[[nodiscard]] bool is_of_block(const Part& part) {
    return part.object == object::blocks_object && !part.dkey.bytes.empty();
}

[[nodiscard]] constexpr uint64_t cells_bytes(uint64_t blocks) { return blocks * sizeof(Cell); }
[[nodiscard]] constexpr uint64_t blocks_of(uint64_t bytes) {
    return (bytes + block_bytes - 1) / block_bytes;
}
// The number of bytes of this block that an array of `size` bytes has.
[[nodiscard]] constexpr size_t stored_bytes(uint64_t size, uint64_t block) {
    const uint64_t begin = block * block_bytes;
    return size <= begin ? 0 : std::min(size - begin, block_bytes);
}

}  // namespace ros2s::cipher
