#include "ros2s/base/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

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

Json::Json(std::string_view text, NotUtf8 bytes) : text_("\"") {
    while (!text.empty()) {
        const size_t length = utf8_length(text);
        const char c = text[0];
        if (length == 0) {
            text_ += bytes == NotUtf8::replaced
                         ? "\\ufffd"
                         : fmt::format("\\udc{:02x}", static_cast<uint8_t>(c));
        } else if (c == '"' || c == '\\') {
            text_ += '\\';
            text_ += c;
        } else if (static_cast<uint8_t>(c) < 0x20) {
            text_ += fmt::format("\\u{:04x}", static_cast<uint8_t>(c));
        } else {
            text_ += text.substr(0, length);
        }
        text.remove_prefix(std::max<size_t>(length, 1));
    }
    text_ += '"';
}

Json::Json(double value) : text_(std::isfinite(value) ? fmt::format("{}", value) : "null") {}

Json Json::object(const std::vector<Member>& members) {
    Json json;
    json.text_ = "{";
    for (const auto& [name, value] : members) {
        if (json.text_.size() > 1) json.text_ += ", ";
        json.text_ += Json(name).text_ + ": " + value.text_;
    }
    json.text_ += "}";
    return json;
}

Json Json::array(const std::vector<Json>& values) {
    Json json;
    json.text_ = "[";
    for (const Json& value : values) {
        if (json.text_.size() > 1) json.text_ += ", ";
        json.text_ += value.text_;
    }
    json.text_ += "]";
    return json;
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
