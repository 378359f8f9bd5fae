// Golden files: the bytes of each structure on the media, in lines that a person can compare: an
// offset and 16 bytes, lines of zeros left out, the length at the end. The files contain them as a
// raw string literal, which the test includes.
#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "ros2s/base/bytes.h"

namespace ros2s::engine {

inline std::string to_golden(ConstBytes bytes) {
    std::string text;
    for (size_t at = 0; at < bytes.size(); at += 16) {
        const auto line = bytes.subspan(at, std::min<size_t>(16, bytes.size() - at));
        bool zero = true;
        std::string hex;
        for (const std::byte byte : line) {
            zero = zero && byte == std::byte{0};
            hex += fmt::format(" {:02x}", static_cast<unsigned>(byte));
        }
        if (!zero) text += fmt::format("{:04x} {}\n", at, hex);
    }
    return text + fmt::format("{:04x}\n", bytes.size());
}

inline std::string from_golden(std::string_view text) {
    std::string bytes;
    const auto hex = [](std::string_view digits) {
        return std::stoul(std::string(digits), nullptr, 16);
    };
    while (!text.empty()) {
        const auto line = text.substr(0, text.find('\n'));
        text.remove_prefix(line.size() + 1);
        bytes.resize(hex(line.substr(0, 4)), '\0');
        for (size_t at = 5; at + 2 < line.size(); at += 3)
            bytes += static_cast<char>(hex(line.substr(at + 1, 2)));
    }
    return bytes;
}

}  // namespace ros2s::engine
