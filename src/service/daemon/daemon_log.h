// The form of a daemon's log. Under systemd each line is a journal entry with its level, and its
// fields (log_fields.h) as ROS2STORE_SESSION=, ROS2STORE_TENANT=, …. Otherwise it is a line on
// standard error:
//
//     2026-11-21T00:31:02.123456Z info: session 7 of CN=alice ended [session=7 tenant="CN=alice"]
//
// Used on the thread of the LogWriter.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "log_writer.h"

namespace ros2s::daemon {

// Writes to `descriptor`, or to the journal if it leads there. `program`: the identifier there.
[[nodiscard]] LogWriter::Write daemon_log(const std::string& program, int descriptor);

// Exposed for tests.
[[nodiscard]] std::string text_line(LogLevel level, std::string_view line, WallTime now);
// "MESSAGE=…", "PRIORITY=…", …
[[nodiscard]] std::vector<std::string> journal_entry(LogLevel level, std::string_view line,
                                                     std::string_view program);

}  // namespace ros2s::daemon
