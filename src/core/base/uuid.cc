#include "uuid.h"

#include <fmt/format.h>

#include <cstring>

#include "text_parts.h"

namespace ros2s {
namespace {

constexpr bool is_after_hyphen(size_t byte) {
    return byte == 4 || byte == 6 || byte == 8 || byte == 10;
}

}  // namespace

std::string Uuid::to_string() const {
    std::string text;
    for (size_t i = 0; i < bytes.size(); ++i) {
        if (is_after_hyphen(i)) text += '-';
        fmt::format_to(std::back_inserter(text), "{:02x}", bytes[i]);
    }
    return text;
}

Uuid Uuid::make(const Secrets& secrets) {
    Uuid uuid;
    for (size_t i = 0; i < 16; i += 8) {
        const uint64_t word = secrets.next();
        std::memcpy(uuid.bytes.data() + i, &word, 8);
    }
    uuid.bytes[6] = static_cast<uint8_t>((uuid.bytes[6] & 0x0f) | 0x40);
    uuid.bytes[8] = static_cast<uint8_t>((uuid.bytes[8] & 0x3f) | 0x80);
    return uuid;
}

Result<Uuid> Uuid::parse(std::string_view text) {
    if (text.size() != 36) return fail(Code::invalid);
    Uuid uuid;
    for (size_t i = 0; i < uuid.bytes.size(); ++i) {
        if (is_after_hyphen(i)) {
            if (!text.starts_with('-')) return fail(Code::invalid);
            text.remove_prefix(1);
        }
        if (!parse_number(text.substr(0, 2), uuid.bytes[i], 16)) return fail(Code::invalid);
        text.remove_prefix(2);
    }
    return uuid;
}

}  // namespace ros2s
