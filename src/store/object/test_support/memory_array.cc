#include "memory_array.h"

#include <algorithm>
#include <cstring>

#include "ros2s/object/checksum.h"

namespace ros2s::object {

std::shared_ptr<MemoryEntry::Block> MemoryEntry::block_copy(uint64_t number) const {
    const auto found = blocks.find(number);
    return std::make_shared<Block>(found == blocks.end() ? Block{}
                                                         : Block{.bytes = found->second->bytes});
}

void MemoryEntry::write(uint64_t offset, ConstBytes bytes, std::string_view seals) {
    if (!bytes.empty()) size = std::max(size, offset + bytes.size());
    for_each_piece(offset, bytes, [&](uint64_t at, ConstBytes piece) {
        auto block = block_copy(at / block_bytes);
        std::ranges::copy(piece, block->bytes.begin() + static_cast<ptrdiff_t>(at % block_bytes));
        if (!seals.empty()) {
            std::ranges::copy(seals.substr(0, seal_bytes), block->seal.begin());
            seals.remove_prefix(seal_bytes);
        }
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
        std::fill(block->bytes.begin() + static_cast<ptrdiff_t>(from),
                  block->bytes.begin() + static_cast<ptrdiff_t>(to), std::byte{0});
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
            std::memcpy(piece.data(), block->second->bytes.data() + at % block_bytes, piece.size());
        }
    });
}

std::string MemoryEntry::seals(Extent extent) const {
    std::string all(piece_count(extent.offset, extent.length) * seal_bytes, '\0');
    const uint64_t first = extent.offset / block_bytes;
    for (auto at = blocks.lower_bound(first);
         at != blocks.end() && at->first * block_bytes < extent.end(); ++at) {
        all.replace((at->first - first) * seal_bytes, seal_bytes, at->second->seal.data(),
                    seal_bytes);
    }
    return all;
}

}  // namespace ros2s::object
