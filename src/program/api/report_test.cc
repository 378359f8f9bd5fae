#include "ros2s/api/report.h"

#include <gtest/gtest.h>

#include <string>

namespace ros2s::api {
namespace {

// The names of some metrics are destroyed when the call of the visitor returns.
TEST(FileReports, CounterNamesAreCopied) {
    FileReport report;
    report.counters = [](const MetricVisitor& visit) {
        for (const char* kind : {"fetch", "update"}) {
            visit("ros2store_client_below_the_client_" + std::string(kind), "help", 7);
        }
    };
    const std::string json = format_report(report, ReportFormat::json);
    EXPECT_TRUE(json.contains(R"("counters": {"ros2store_client_below_the_client_fetch": 7, )"
                              R"("ros2store_client_below_the_client_update": 7})"))
        << json;
}

TEST(FileReports, InvalidUtf8IsReplaced) {
    FileReport report{.file = "f\xff", .deployment = "d\xff"};
    report.io.path = "p\xff";
    const std::string json = format_report(report, ReportFormat::json);
    for (const char* part : {R"("f\ufffd")", R"("d\ufffd")", R"("p\ufffd")"}) {
        EXPECT_TRUE(json.contains(part)) << json;
    }
}

}  // namespace
}  // namespace ros2s::api
