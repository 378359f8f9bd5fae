// Parts of texts, and numbers in them.
#pragma once
#include <charconv>
#include <concepts>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace ros2s {

inline std::string_view without_spaces(std::string_view text) {
    while (text.starts_with(' ')) text.remove_prefix(1);
    while (text.ends_with(' ')) text.remove_suffix(1);
    return text;
}

// The parts between commas that are not empty, without surrounding spaces.
[[nodiscard]] inline std::vector<std::string> parts_of(std::string_view text) {
    std::vector<std::string> parts;
    while (!text.empty()) {
        const std::string_view part = text.substr(0, text.find(','));
        text.remove_prefix(part.size() < text.size() ? part.size() + 1 : part.size());
        if (const auto inner = without_spaces(part); !inner.empty()) parts.emplace_back(inner);
    }
    return parts;
}

// Control characters become \xHH, so that a peer's text stays one line and commands no terminal.
[[nodiscard]] std::string printable(std::string_view text);

// In double quotes, as in log lines and in YAML's double-quoted style: can hold any text.
[[nodiscard]] std::string double_quoted(std::string_view text);

// Returns true if the whole text is a number that `into` can hold. Only a negative number has a
// sign, and none has a prefix. If not, `into` may have changed.
template <class Number>
[[nodiscard]] bool parse_number(std::string_view text, Number& into, int base = 10) {
    const char* const begin = text.data();
    const char* const end = begin + text.size();
    std::from_chars_result read;
    if constexpr (std::floating_point<Number>) {
        read = std::from_chars(begin, end, into);
    } else {
        read = std::from_chars(begin, end, into, base);
    }
    return read.ec == std::errc{} && read.ptr == end;
}

}  // namespace ros2s
