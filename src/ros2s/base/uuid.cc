#include "uuid.h"

#include <fmt/format.h>

#include <cstring>

namespace ros2s {

std::string Uuid::to_string() const {
    std::string text;
    for (size_t i = 0; i < bytes.size(); ++i) {
        if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
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
    size_t at = 0;
    for (size_t i = 0; i < text.size(); ++i) {
        if (i == 8 || i == 13 || i == 18 || i == 23) {
            if (text[i] != '-') return fail(Code::invalid);
            continue;
        }
        const char c = text[i];
        int digit = 0;
        if (c >= '0' && c <= '9') {
            digit = c - '0';
        } else if (c >= 'a' && c <= 'f') {
            digit = c - 'a' + 10;
        } else if (c >= 'A' && c <= 'F') {
            digit = c - 'A' + 10;
        } else {
            return fail(Code::invalid);
        }
        auto& byte = uuid.bytes[at / 2];
        byte = static_cast<uint8_t>(at % 2 == 0 ? digit << 4 : byte | digit);
        ++at;
    }
    return uuid;
}

}  // namespace ros2s
