// Bytes from text, for the tests of this module.
#pragma once
#include <string_view>
#include <vector>

#include "ros2s/base/bytes.h"
#include "ros2s/cipher/block_cipher.h"

namespace ros2s::cipher {

inline std::vector<std::byte> from_hex(std::string_view text) {
    std::vector<std::byte> bytes;
    const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
    for (size_t i = 0; i + 1 < text.size(); i += 2) {
        bytes.push_back(static_cast<std::byte>(digit(text[i]) * 16 + digit(text[i + 1])));
    }
    return bytes;
}

inline SecretKey key_from_hex(std::string_view text) {
    const auto bytes = from_hex(text);
    return SecretKey(std::span(bytes).first<key_bytes>());
}

// 32 bytes that count from `first`.
inline SecretKey counting_key(uint8_t first) {
    SecretKey key;
    for (std::byte& byte : key.bytes()) byte = static_cast<std::byte>(first++);
    return key;
}

inline DataKeys test_keys(uint32_t current = 1, Layout layout = Layout::cells) {
    DataKeys keys{.layout = layout};
    keys.id.bytes = {1, 2, 3};
    keys.current = current;
    for (uint32_t version = 1; version <= current; ++version) {
        keys.versions[version] = counting_key(static_cast<uint8_t>(version * 16));
    }
    return keys;
}

}  // namespace ros2s::cipher
