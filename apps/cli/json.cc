#include "json.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>

namespace ros2s::cli {
namespace {

// The length of the UTF-8 sequence that `text` begins with, 0 where it begins with none.
size_t sequence_bytes(std::string_view text) {
    const auto byte = [&](size_t at) { return static_cast<uint8_t>(text[at]); };
    const uint8_t lead = byte(0);
    const size_t length = lead < 0x80             ? 1
                          : (lead & 0xe0) == 0xc0 ? 2
                          : (lead & 0xf0) == 0xe0 ? 3
                          : (lead & 0xf8) == 0xf0 ? 4
                                                  : 0;
    if (length == 0 || length > text.size()) return 0;
    uint32_t point = length == 1 ? lead : lead & (0x7fU >> length);
    for (size_t at = 1; at < length; ++at) {
        if ((byte(at) & 0xc0) != 0x80) return 0;
        point = (point << 6) | (byte(at) & 0x3fU);
    }
    static constexpr uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const bool surrogate = point >= 0xd800 && point < 0xe000;
    return point < least[length] || surrogate || point > 0x10ffff ? 0 : length;
}

}  // namespace

Json::Json(double value) : text_(std::isfinite(value) ? fmt::format("{}", value) : "null") {}

std::string Json::quoted(std::string_view text) {
    std::string out = "\"";
    while (!text.empty()) {
        const size_t length = sequence_bytes(text);
        const auto byte = static_cast<uint8_t>(text[0]);
        if (length == 0) {
            out += fmt::format("\\udc{:02x}", byte);
        } else if (byte == '"' || byte == '\\') {
            out += '\\';
            out += text[0];
        } else if (byte < 0x20) {
            out += fmt::format("\\u{:04x}", byte);
        } else {
            out += text.substr(0, length);
        }
        text.remove_prefix(length == 0 ? 1 : length);
    }
    return out + '"';
}

Json Json::object(const std::vector<Member>& members) {
    Json json;
    json.text_ = "{";
    for (const auto& [name, value] : members) {
        if (json.text_.size() > 1) json.text_ += ", ";
        json.text_ += quoted(name) + ": " + value.text_;
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

}  // namespace ros2s::cli
