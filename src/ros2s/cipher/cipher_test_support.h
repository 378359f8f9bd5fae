// Bytes from text, for the tests of this module.
#pragma once
#include <array>
#include <string_view>
#include <vector>

#include "ros2s/base/bytes.h"
#include "ros2s/cipher/aead.h"

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

}  // namespace ros2s::cipher
