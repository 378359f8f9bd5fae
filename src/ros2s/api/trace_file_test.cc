#include "ros2s/api/trace_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ros2s::api {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

TEST(TraceFile, StepsBelongToTheProcessesThatTookThem) {
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
    EXPECT_THAT(text, testing::StartsWith("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n{"));
    EXPECT_THAT(text, testing::EndsWith("}\n]}\n"));
    EXPECT_THAT(text, HasSubstr(R"({"ph":"X","name":"rpc.call","cat":"read of 4096 bytes","pid":1,)"
                                R"("tid":1,"ts":0.000,"dur":100.000})"));
    EXPECT_THAT(text, HasSubstr(R"("name":"rpc.call","cat":"read of 4096 bytes","pid":2)"));
    EXPECT_THAT(text, HasSubstr(R"("name":"device.read","cat":"read of 4096 bytes","pid":3,)"
                                R"("tid":1,"ts":30.000,"dur":40.000)"));
    EXPECT_THAT(text, HasSubstr(R"("name":"dpu.\"after\"","cat":"read of 4096 bytes","pid":2)"));
    for (const auto* process :
         {R"("pid":1,"args":{"name":"host"})", R"("pid":2,"args":{"name":"dpu"})",
          R"("pid":3,"args":{"name":"engine"})"}) {
        EXPECT_THAT(text, HasSubstr(process));
    }
}

}  // namespace
}  // namespace ros2s::api
