#include "log.h"

#include <unistd.h>

#include <cstdlib>

#include "text_parts.h"

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

void Log::say(LogLevel level, std::string_view line) const {
    if (!sink_ || level < least_) return;
    sink_(level, printable(line));
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
