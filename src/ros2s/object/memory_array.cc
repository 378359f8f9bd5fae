#include "memory_array.h"

#include <algorithm>
#include <cstring>

#include "checksum.h"

namespace ros2s::object {

std::shared_ptr<MemoryEntry::Block> MemoryEntry::block_copy(uint64_t number) const {
    const auto found = blocks.find(number);
    return found == blocks.end() ? std::make_shared<Block>()
                                 : std::make_shared<Block>(*found->second);
}

void MemoryEntry::write(uint64_t offset, ConstBytes bytes) {
    if (!bytes.empty()) size = std::max(size, offset + bytes.size());
    for_each_piece(offset, bytes, [&](uint64_t at, ConstBytes piece) {
        auto block = block_copy(at / block_bytes);
        std::ranges::copy(piece, block->begin() + static_cast<ptrdiff_t>(at % block_bytes));
        blocks[at / block_bytes] = std::move(block);
    });
}

void MemoryEntry::punch(Extent extent) {
    if (extent.length == 0) return;
    auto at = blocks.lower_bound(extent.offset / block_bytes);
    while (at != blocks.end() && at->first * block_bytes < extent.end()) {
        const uint64_t start = at->first * block_bytes;
        const uint64_t from = std::max(extent.offset, start) - start;
        const uint64_t to = std::min(extent.end(), start + block_bytes) - start;
        if (from == 0 && to == block_bytes) {
            at = blocks.erase(at);
            continue;
        }
        auto block = block_copy(at->first);
        std::fill(block->begin() + static_cast<ptrdiff_t>(from),
                  block->begin() + static_cast<ptrdiff_t>(to), std::byte{0});
        at->second = std::move(block);
        ++at;
    }
}

void MemoryEntry::set_size(uint64_t size_now) {
    // Rounded up, so that a last block without bytes is removed as a whole.
    if (size_now < size) punch({size_now, round_up(size, block_bytes) - size_now});
    size = size_now;
}

void MemoryEntry::read(uint64_t offset, Bytes into) const {
    for_each_piece(offset, into, [&](uint64_t at, Bytes piece) {
        const auto block = blocks.find(at / block_bytes);
        if (block == blocks.end()) {
            std::memset(piece.data(), 0, piece.size());
        } else {
            std::memcpy(piece.data(), block->second->data() + at % block_bytes, piece.size());
        }
    });
}

}  // namespace ros2s::object
