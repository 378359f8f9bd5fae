// A fast hash for tables in memory. Its values are never written to the media.
//
// The key is secret. Clients choose object ids and dkeys: without a secret they could choose many
// with one hash, or one with the hash of another tenant's.
#pragma once
#include <cstdint>
#include <cstring>
#include <string_view>

namespace ros2s::engine {

// The two halves of the product, one on the other (as in wyhash, by Wang Yi).
[[nodiscard]] inline uint64_t hash_mix(uint64_t a, uint64_t b) {
    const auto product = static_cast<unsigned __int128>(a) * b;
    return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

[[nodiscard]] inline uint64_t hash_text(std::string_view text, uint64_t key) {
    constexpr uint64_t first = 0x9fb21c651e98df25, second = 0xa0761d6478bd642f;
    const auto word = [&text](size_t bytes) {
        uint64_t value = 0;
        if (bytes > 0) std::memcpy(&value, text.data(), bytes);
        text.remove_prefix(bytes);
        return value;
    };
    const uint64_t secret = hash_mix(key ^ first, second);
    uint64_t hash = hash_mix(secret ^ second, text.size() ^ first);
    while (text.size() >= 16) {
        const uint64_t low = word(8);
        hash = hash_mix(low ^ secret, word(8) ^ hash);
    }
    const uint64_t low = word(text.size() >= 8 ? 8 : text.size());
    hash = hash_mix(low ^ secret, word(text.size()) ^ hash);
    return hash_mix(hash ^ first, secret ^ second);
}

}  // namespace ros2s::engine
