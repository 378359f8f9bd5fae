#include "block_map.h"

#include <algorithm>

namespace ros2s::engine {

void BlockMap::grow(uint32_t block) {
    // 1, 8, 64, 256: small files stay small and a large one is copied three times at most.
    uint32_t capacity = std::max(capacity_, 1U);
    while (capacity <= block) capacity *= 8;
    capacity = std::min(capacity, segment_blocks);
    auto memory = std::make_unique<std::byte[]>(capacity * bytes_each);  // zeroed: all holes
    if (capacity_ > 0) {
        std::memcpy(memory.get(), memory_.get(), capacity_ * sizeof(uint64_t));
        std::memcpy(memory.get() + capacity * sizeof(uint64_t),
                    memory_.get() + capacity_ * sizeof(uint64_t), capacity_ * sizeof(uint32_t));
    }
    memory_ = std::move(memory);
    if (has_seals()) {
        auto seals = std::make_unique<char[]>(capacity * object::seal_bytes);
        std::memcpy(seals.get(), seals_.get(), capacity_ * object::seal_bytes);
        seals_ = std::move(seals);
    }
    capacity_ = capacity;
}

}  // namespace ros2s::engine
