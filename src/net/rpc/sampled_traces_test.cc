#include "ros2s/rpc/sampled_traces.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "test_support/rpc.h"

namespace ros2s::rpc {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;

size_t count(std::string_view text, std::string_view word) {
    size_t found = 0;
    for (size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) ++found;
    return found;
}

TEST(SampledTraces, LatestRequestsAndFirstStepsAreKept) {
    SampledTraces traces;
    EXPECT_FALSE(traces.take_next()) << "off by default";
    traces.set_every(3);
    int taken = 0;
    for (int i = 0; i < 300; ++i) taken += traces.take_next() ? 1 : 0;
    EXPECT_EQ(taken, 100);
    for (size_t i = 0; i < SampledTraces::kept_max + 10; ++i) {
        Trace trace;
        for (size_t step = 0; step < SampledTraces::steps_max + 5; ++step) {
            trace.add("step", Time{1s}, Time{2s});
        }
        traces.add("read", fmt::format("tenant-{}\"", i), trace);
    }
    const std::string document = traces.document("hosts");
    EXPECT_EQ(count(document, R"("name": "step")"),
              SampledTraces::kept_max * SampledTraces::steps_max);
    EXPECT_THAT(document, HasSubstr(R"("read of tenant-265\"")"));
    EXPECT_THAT(document, Not(HasSubstr(R"("read of tenant-9\"")")));
    EXPECT_THAT(document, HasSubstr(R"("ts": 1000000, "dur": 1000000})"));
}

Task<> call_ten_times(Stage& stage) {
    co_await stage.start();
    auto channel = co_await stage.connect();
    EXPECT_TRUE(channel) << stage.report.text();
    if (!channel) co_return;
    for (int i = 0; i < 10; ++i) {
        const std::array<std::byte, 5> body{};
        const CallRequest request{.method = echo, .body = body};
        CopyReply reply({});
        EXPECT_TRUE(co_await (*channel)->call({}, request, reply));
        EXPECT_EQ(reply.body.size(), 5U) << "the client gets no trace that it did not request";
    }
    co_await stage.leave(*channel);
    co_await stage.stop();
}

TEST(SampledTraces, EveryNthRequestOfGroupIsSampled) {
    Stage stage(1);
    ServerGroup group{stage.core()};
    group.traces.set_every(5);
    stage.server_options.group = &group;
    stage.world.run(call_ten_times(stage));
    const std::string document = group.traces.document("clients");
    EXPECT_EQ(count(document, R"("name": "server.serve")"), 2U);
    EXPECT_EQ(count(document, R"("name": "rpc.queue")"), 2U);
}

}  // namespace
}  // namespace ros2s::rpc
