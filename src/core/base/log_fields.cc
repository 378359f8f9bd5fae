#include "log_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "text_parts.h"

namespace ros2s {
namespace {

bool is_word(std::string_view text) {
    return std::ranges::all_of(text, [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               std::string_view("+-./:@_").contains(c);
    });
}

// Removes what it has read from the front of `rest`.
std::optional<std::string> take_quoted(std::string_view& rest) {
    std::string value;
    for (rest.remove_prefix(1); !rest.empty(); rest.remove_prefix(1)) {
        if (rest.front() == '"') {
            rest.remove_prefix(1);
            return value;
        }
        if (rest.front() != '\\') {
            value += rest.front();
            continue;
        }
        rest.remove_prefix(1);
        if (rest.empty()) break;
        if (rest.front() != 'x') {
            value += rest.front();
            continue;
        }
        unsigned byte = 0;
        const std::string_view digits = rest.substr(1, 2);
        if (digits.size() != 2 || !parse_number(digits, byte, 16)) return std::nullopt;
        value += static_cast<char>(byte);
        rest.remove_prefix(2);
    }
    return std::nullopt;
}

std::optional<std::string> take_value(std::string_view& rest) {
    if (rest.starts_with('"')) return take_quoted(rest);
    const std::string_view word = rest.substr(0, rest.find_first_of(" ]"));
    if (word.empty() || !is_word(word)) return std::nullopt;
    rest.remove_prefix(word.size());
    return std::string(word);
}

// "name=value name=value]" and nothing after it.
bool read_fields(std::string_view rest, SplitLine& into) {
    into.fields.clear();
    while (true) {
        const size_t equals = rest.find('=');
        if (equals == 0 || equals == rest.npos || !is_word(rest.substr(0, equals))) return false;
        std::string name(rest.substr(0, equals));
        rest.remove_prefix(equals + 1);
        auto value = take_value(rest);
        if (!value) return false;
        into.fields.emplace_back(std::move(name), std::move(*value));
        if (rest == "]") return true;
        if (!rest.starts_with(' ')) return false;
        rest.remove_prefix(1);
    }
}

}  // namespace

std::string log_fields(
    std::initializer_list<std::pair<std::string_view, std::string_view>> fields) {
    std::string all;
    for (const auto& [name, value] : fields) {
        if (value.empty()) continue;
        all += fmt::format("{}{}={}", all.empty() ? " [" : " ", name,
                           is_word(value) ? std::string(value) : double_quoted(value));
    }
    return all.empty() ? all : all + "]";
}

SplitLine split_fields(std::string_view line) {
    SplitLine split;
    if (line.ends_with(']')) {
        for (size_t at = 0; (at = line.find(" [", at)) != line.npos; at += 2) {
            split.text = line.substr(0, at);
            if (read_fields(line.substr(at + 2), split)) return split;
        }
    }
    return {.text = line, .fields = {}};
}

}  // namespace ros2s
