#include "ros2s/api/file_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ros2s::api {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

TEST(TraceFile, StepsBelongToTheirProcesses) {
    FileTrace trace;
    trace.read = {.bytes = 4096,
                  .whole = 100us,
                  .steps = {{"rpc.call", 0, 0us, 100us},
                            {"dpu.serve", 1, 10us, 80us},
                            {"rpc.call", 2, 15us, 70us},
                            {"engine.serve", 3, 25us, 50us},
                            {"device.read", 4, 30us, 40us},
                            {"dpu.\"after\"", 2, 86us, 3us}}};
    const std::string text = to_trace_file(trace);
    EXPECT_THAT(text, testing::StartsWith(
                          R"({"displayTimeUnit": "ns", "traceEvents": [{"ph": "X", "name": )"));
    EXPECT_THAT(text, testing::EndsWith("}]}\n"));
    const std::string title = R"("cat": "read of 4096 bytes", )";
    for (const std::string& part :
         {R"({"ph": "X", "name": "rpc.call", )" + title +
              R"("pid": 1, "tid": 1, "ts": 0, "dur": 100})",
          R"("name": "rpc.call", )" + title + R"("pid": 2)",
          R"("name": "device.read", )" + title + R"("pid": 3, "tid": 1, "ts": 30, "dur": 40})",
          R"("name": "dpu.\"after\"", )" + title + R"("pid": 2)",
          std::string(R"("pid": 1, "tid": 1, "args": {"name": "read of 4096 bytes"})"),
          std::string(R"("pid": 1, "args": {"name": "host"})"),
          std::string(R"("pid": 2, "args": {"name": "dpu"})"),
          std::string(R"("pid": 3, "args": {"name": "engine"})")}) {
        EXPECT_THAT(text, HasSubstr(part));
    }
}

}  // namespace
}  // namespace ros2s::api
