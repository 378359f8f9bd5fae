#include "block_map.h"

#include <algorithm>

namespace ros2s::engine {

void BlockMap::grow(uint32_t block) {
    // 1, 8, 64, 256: small files stay small and a large one is copied three times at most.
    uint32_t capacity = std::max(capacity_, 1U);
    while (capacity <= block) capacity *= 8;
    capacity = std::min(capacity, segment_blocks);
    auto blocks = std::make_unique<Block[]>(capacity);  // zeroed: all holes
    std::copy_n(blocks_.get(), capacity_, blocks.get());
    blocks_ = std::move(blocks);
    if (has_seals()) {
        auto seals = std::make_unique<char[]>(capacity * object::seal_bytes);
        std::memcpy(seals.get(), seals_.get(), capacity_ * object::seal_bytes);
        seals_ = std::move(seals);
    }
    capacity_ = capacity;
}

}  // namespace ros2s::engine
