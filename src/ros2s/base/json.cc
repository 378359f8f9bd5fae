#include "ros2s/base/json.h"

#include <fmt/format.h>

#include <algorithm>

namespace ros2s {
namespace {

// Bytes of the UTF-8 sequence that `text` starts with; 0 if it is not one.
size_t utf8_length(std::string_view text) {
    const auto first = static_cast<uint8_t>(text[0]);
    const size_t length = first < 0x80         ? 1
                          : first >> 5 == 0x06 ? 2
                          : first >> 4 == 0x0e ? 3
                          : first >> 3 == 0x1e ? 4
                                               : 0;
    if (length == 0 || length > text.size()) return 0;
    uint32_t point = length == 1 ? first : first & (0x7fU >> length);
    for (size_t i = 1; i < length; ++i) {
        const auto next = static_cast<uint8_t>(text[i]);
        if (next >> 6 != 2) return 0;
        point = point << 6 | (next & 0x3fU);
    }
    constexpr uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const bool surrogate = point >= 0xd800 && point < 0xe000;
    return point < least[length] || point > 0x10ffff || surrogate ? 0 : length;
}

}  // namespace

std::string json_string(std::string_view text, NotUtf8 bytes) {
    std::string out = "\"";
    while (!text.empty()) {
        const size_t length = utf8_length(text);
        const char c = text[0];
        if (length == 0) {
            out += bytes == NotUtf8::replaced ? "\\ufffd"
                                              : fmt::format("\\udc{:02x}", static_cast<uint8_t>(c));
        } else if (c == '"' || c == '\\') {
            out += '\\';
            out += c;
        } else if (static_cast<uint8_t>(c) < 0x20) {
            out += fmt::format("\\u{:04x}", static_cast<uint8_t>(c));
        } else {
            out += text.substr(0, length);
        }
        text.remove_prefix(std::max<size_t>(length, 1));
    }
    return out + '"';
}

bool is_utf8(std::string_view text) {
    while (!text.empty()) {
        const size_t length = utf8_length(text);
        if (length == 0) return false;
        text.remove_prefix(length);
    }
    return true;
}

}  // namespace ros2s
