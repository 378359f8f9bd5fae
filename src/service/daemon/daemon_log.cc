// Otherwise every line would have this file as its place in the code.
#define SD_JOURNAL_SUPPRESS_LOCATION
#include "daemon_log.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <syslog.h>
#include <systemd/sd-journal.h>
#include <time.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>

#include "ros2s/base/log_fields.h"

namespace ros2s::daemon {
namespace {

// systemd sets the variable to DEVICE:INODE. A child whose standard error is elsewhere inherits it,
// too.
bool is_the_journal(int descriptor) {
    const char* const said = std::getenv("JOURNAL_STREAM");
    struct stat facts{};
    return said != nullptr && ::fstat(descriptor, &facts) == 0 &&
           said == fmt::format("{}:{}", facts.st_dev, facts.st_ino);
}

int priority_of(LogLevel level) {
    switch (level) {
        case LogLevel::debug: return LOG_DEBUG;
        case LogLevel::info: return LOG_INFO;
        case LogLevel::warning: return LOG_WARNING;
        case LogLevel::error: return LOG_ERR;
    }
    return LOG_ERR;
}

// One write per line, because libraries and other processes may write there, too. A lost log line
// is not an error.
void put(int descriptor, std::string_view text) {
    [[maybe_unused]] const auto written = ::write(descriptor, text.data(), text.size());
}

bool send_to_journal(LogLevel level, std::string_view line, std::string_view program) {
    const std::vector<std::string> entry = journal_entry(level, line, program);
    std::vector<iovec> parts;
    for (const std::string& field : entry) {
        parts.push_back({const_cast<char*>(field.data()), field.size()});
    }
    return ::sd_journal_sendv(parts.data(), static_cast<int>(parts.size())) == 0;
}

}  // namespace

std::string text_line(LogLevel level, std::string_view line, WallTime now) {
    const auto seconds = std::chrono::floor<std::chrono::seconds>(now);
    const time_t time = seconds.time_since_epoch().count();
    tm parts{};
    ::gmtime_r(&time, &parts);
    return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z {}: {}\n", parts.tm_year + 1900,
                       parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                       std::chrono::floor<std::chrono::microseconds>(now - seconds).count(),
                       to_string(level), line);
}

std::vector<std::string> journal_entry(LogLevel level, std::string_view line,
                                       std::string_view program) {
    const SplitLine split = split_fields(line);
    std::vector<std::string> entry{fmt::format("MESSAGE={}", split.text),
                                   fmt::format("PRIORITY={}", priority_of(level)),
                                   fmt::format("SYSLOG_IDENTIFIER={}", program)};
    for (const auto& [name, value] : split.fields) {
        std::string field = "ROS2STORE_";
        for (const char c : name) field += static_cast<char>(c >= 'a' && c <= 'z' ? c - 32 : c);
        entry.push_back(field + "=" + value);
    }
    return entry;
}

LogWriter::Write daemon_log(const std::string& program, int descriptor) {
    const bool journal = is_the_journal(descriptor);
    return [journal, program, descriptor](LogLevel level, std::string_view line, WallTime time) {
        if (journal && send_to_journal(level, line, program)) return;
        if (journal) {
            // The format of sd-daemon(3).
            put(descriptor, fmt::format("<{}>{}\n", priority_of(level), line));
        } else {
            put(descriptor, text_line(level, line, time));
        }
    };
}

}  // namespace ros2s::daemon
