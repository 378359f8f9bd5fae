#include "log.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace ros2s {

std::string_view to_string(LogLevel level) noexcept {
    switch (level) {
        case LogLevel::debug: return "debug";
        case LogLevel::info: return "info";
        case LogLevel::warning: return "warning";
        case LogLevel::error: return "error";
    }
    return "unknown";
}

namespace {
bool is_control(char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7f; }
}  // namespace

void Log::say(LogLevel level, std::string_view line) const {
    if (!sink_ || level < least_) return;
    if (std::ranges::none_of(line, is_control)) return sink_(level, line);
    std::string escaped;
    for (const char c : line) {
        is_control(c) ? escaped += fmt::format("\\x{:02x}", c) : escaped += c;
    }
    sink_(level, escaped);
}

Log log_to_stderr(LogLevel least) {
    const bool journal = std::getenv("JOURNAL_STREAM") != nullptr;
    return Log(
        [journal](LogLevel level, std::string_view line) {
            // sd-daemon(3): <7> debug, <6> info, <4> warning, <3> error.
            static constexpr const char* prefixes[] = {"<7>", "<6>", "<4>", "<3>"};
            std::string text = journal ? prefixes[static_cast<int>(level)] : "";
            if (!journal) text.append(to_string(level)).append(": ");
            text.append(line).push_back('\n');
            // One write per line, so that lines of several threads stay whole. A lost log line is
            // not an error.
            [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text.data(), text.size());
        },
        least);
}

}  // namespace ros2s
