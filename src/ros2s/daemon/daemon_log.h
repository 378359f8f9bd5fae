// A daemon writes its log here. Under systemd each line is a journal entry with its level, and its
// fields (log_fields.h) as ROS2STORE_SESSION=, ROS2STORE_TENANT= and ROS2STORE_PEER=. Otherwise it
// is a line on standard error:
//
//     2026-11-21T00:31:02.123456Z info: session 7 of CN=alice ended [session=7 tenant="CN=alice"]
//
// Any thread.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "ros2s/base/log.h"
#include "ros2s/runtime/time.h"

namespace ros2s::daemon {

// `program`: the identifier in the journal.
[[nodiscard]] Log daemon_log(const std::string& program, LogLevel least = LogLevel::info);

// Exposed for tests.
[[nodiscard]] std::string text_line(LogLevel level, std::string_view line, WallTime now);
// "MESSAGE=…", "PRIORITY=…", …
[[nodiscard]] std::vector<std::string> journal_entry(LogLevel level, std::string_view line,
                                                     std::string_view program);

}  // namespace ros2s::daemon
