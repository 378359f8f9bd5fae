#include "block_names.h"

#include <algorithm>

#include "ros2s/fs/file_system.h"
#include "ros2s/object/blocks.h"

namespace ros2s::fs {

namespace {

constexpr std::string_view digits = "0123456789abcdef";

bool is_plain(std::string_view key) {
    const auto is_shown = [](char c) { return c > ' ' && c < 0x7f && c != '/'; };
    return key != "." && key != ".." && key.front() != '%' && std::ranges::all_of(key, is_shown);
}

}  // namespace

std::string block_name_of(std::string_view key) {
    if (is_plain(key)) return std::string(key);
    std::string name = "%";
    for (const char c : key) {
        name += digits[static_cast<uint8_t>(c) >> 4];
        name += digits[static_cast<uint8_t>(c) & 15];
    }
    return name;
}

Result<std::string> block_key_of(std::string_view name) {
    ROS2S_TRY(check_name(name));
    std::string key(name);
    if (name.front() == '%') {
        key.clear();
        if (name.size() % 2 == 0) return fail(Code::invalid);
        for (size_t i = 1; i < name.size(); i += 2) {
            const size_t high = digits.find(name[i]), low = digits.find(name[i + 1]);
            if (high == digits.npos || low == digits.npos) return fail(Code::invalid);
            key += static_cast<char>(high << 4 | low);
        }
    }
    if (key.size() > object::block_key_bytes_max) return fail(Code::name_too_long);
    // Each key has one name.
    if (key.empty() || block_name_of(key) != name) return fail(Code::invalid);
    return key;
}

}  // namespace ros2s::fs
