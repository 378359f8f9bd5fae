#include "text_parts.h"

#include <fmt/format.h>

namespace ros2s {

std::string printable(std::string_view text) {
    std::string shown;
    for (size_t i = 0; i < text.size(); ++i) {
        const auto byte = static_cast<unsigned char>(text[i]);
        if (byte < ' ' || byte == 0x7f) {
            shown += fmt::format("\\x{:02x}", byte);
        } else if (byte == 0xc2 && i + 1 < text.size() && (text[i + 1] & 0xe0) == 0x80) {
            // U+0080 to U+009f in UTF-8, which terminals obey as they obey ESC.
            shown += fmt::format("\\xc2\\x{:02x}", static_cast<unsigned char>(text[++i]));
        } else {
            shown += text[i];
        }
    }
    return shown;
}

std::string double_quoted(std::string_view text) {
    std::string all = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') {
            all += {'\\', c};
        } else if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) {
            all += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
        } else {
            all += c;
        }
    }
    return all + '"';
}

}  // namespace ros2s
