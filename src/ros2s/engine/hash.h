// This hash is fast and for tables in memory. Its values are never written to the media.
#pragma once
#include <cstdint>
#include <cstring>
#include <string_view>

namespace ros2s::engine {

[[nodiscard]] constexpr uint64_t hash_mix(uint64_t a, uint64_t b) {
    a = (a ^ b) * 0x9fb21c651e98df25;
    return a ^ (a >> 29);
}

[[nodiscard]] inline uint64_t hash_text(std::string_view text, uint64_t seed = 0) {
    uint64_t hash = hash_mix(seed, text.size());
    while (text.size() >= 8) {
        uint64_t word;
        std::memcpy(&word, text.data(), 8);
        hash = hash_mix(hash, word);
        text.remove_prefix(8);
    }
    if (!text.empty()) {
        uint64_t word = 0;
        std::memcpy(&word, text.data(), text.size());
        hash = hash_mix(hash, word);
    }
    return hash_mix(hash, hash >> 32);
}

}  // namespace ros2s::engine
