#include "console.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ranges>

#include "ros2s/base/text_parts.h"
#include "ros2s/config/units.h"

namespace ros2s::cli {

Console::Console(bool json) : json_(json), on_terminal_(isatty(STDOUT_FILENO) == 1) {}

std::string Console::name(std::string_view text) const {
    return on_terminal_ ? printable(text) : std::string(text);
}

// finish() detects failures.
void Console::put(std::string_view lines) const {
    for (const auto part : std::views::split(lines, '\n')) {
        const std::string line = name(std::string_view(part));
        (void)std::fwrite(line.data(), 1, line.size(), stdout);
        (void)std::fputc('\n', stdout);
    }
    if (lines.empty()) (void)std::fputc('\n', stdout);
}

void Console::say(std::string_view line) const {
    if (!json_) put(line);
}

void Console::answer(const Json& value) const {
    if (json_) put(value.text());
}

void Console::put_on_stderr(const char* kind, const char* prefix, std::string_view sentence) const {
    // Earlier output comes first, also if both go to one file.
    std::fflush(stdout);
    if (json_) {
        fmt::print(stderr, "{}\n", Json::object({{kind, sentence}}).text());
    } else {
        fmt::print(stderr, "{}{}\n", prefix, printable(sentence));
    }
}

void Console::complain(std::string_view sentence) const {
    put_on_stderr("error", "ros2store: ", sentence);
}

void Console::warn(std::string_view sentence) const {
    put_on_stderr("warning", "ros2store: warning: ", sentence);
}

bool Console::finish() const {
    const bool failed_before = std::ferror(stdout) != 0;
    const int failure = std::fflush(stdout) != 0 ? errno : 0;
    if (!failed_before && failure == 0) return true;
    complain("standard output: {}; the answer is not complete",
             failure != 0 ? std::strerror(failure) : "it could not be written");
    return false;
}

std::string human_bytes(uint64_t bytes) { return config::human_size(bytes); }

Result<uint64_t> size_of(std::string_view text, Report& report) {
    const auto bytes = config::parse_size(text);
    if (bytes) return *bytes;
    if (bytes.error().code == Code::too_large) {
        return report.fail(bytes.error(),
                           "'{}' is more than any disk has; name a smaller size, as in 512M or 4G",
                           text);
    }
    return report.fail(
        bytes.error(),
        "'{}' is not a size; write a whole number and K, M, G or T, as in 512M or 4G", text);
}

std::string shell_word(std::string_view text) {
    const auto plain = [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
               std::string_view("+,-./:=@_%").contains(c);
    };
    if (!text.empty() && std::ranges::all_of(text, plain)) return std::string(text);
    std::string word = "'";
    for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return word + "'";
}

}  // namespace ros2s::cli
