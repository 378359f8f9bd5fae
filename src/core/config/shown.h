// shown(): a text from a file, made fit for a sentence: printable and at most one line long.
#pragma once
#include <string>
#include <string_view>

namespace ros2s::config {

[[nodiscard]] inline std::string shown(std::string_view text) {
    constexpr size_t most = 60;
    std::string clean;
    for (const char c : text.substr(0, most))
        clean += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
    return clean + (text.size() > most ? "…" : "");
}

}  // namespace ros2s::config
