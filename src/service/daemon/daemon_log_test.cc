#include "daemon_log.h"

#include <gtest/gtest.h>

namespace ros2s::daemon {
namespace {

using namespace std::chrono_literals;

TEST(DaemonLog, LinesStartWithTheirTime) {
    const WallTime now(std::chrono::sys_days(std::chrono::year(2026) / 11 / 21) + 31min + 2s +
                       1234567ns);
    EXPECT_EQ(text_line(LogLevel::info, "ready", now), "2026-11-21T00:31:02.001234Z info: ready\n");
    EXPECT_EQ(text_line(LogLevel::error, "it [a=b]", WallTime(-1ns)),
              "1969-12-31T23:59:59.999999Z error: it [a=b]\n");
}

TEST(DaemonLog, JournalEntriesHaveFields) {
    using Entry = std::vector<std::string>;
    EXPECT_EQ(journal_entry(LogLevel::warning, "audit: it [session=7 tenant=\"CN=a\\\"\\x0a\"]",
                            "ros2store-dpu"),
              (Entry{"MESSAGE=audit: it", "PRIORITY=4", "SYSLOG_IDENTIFIER=ros2store-dpu",
                     "ROS2STORE_SESSION=7", "ROS2STORE_TENANT=CN=a\"\n"}));
    EXPECT_EQ(journal_entry(LogLevel::info, "ready", "x"),
              (Entry{"MESSAGE=ready", "PRIORITY=6", "SYSLOG_IDENTIFIER=x"}));
}

}  // namespace
}  // namespace ros2s::daemon
