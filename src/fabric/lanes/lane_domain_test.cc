// A listener whose library can take no further connection.
#include "ros2s/fabric/lanes/lane_domain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ros2s/runtime/os_reactor.h"
#include "silent_worker.h"

namespace ros2s::fabric::lanes {
namespace {

class FullWorker final : public SilentWorker {
  public:
    using SilentWorker::SilentWorker;
    Result<std::unique_ptr<Lane>> open_lane(const Ends& /*ends*/, LaneUser& /*user*/) override {
        return fail(Code::no_memory);
    }
};

Task<> connect_to_a_full_one(Reactor& reactor) {
    const auto domain = [&] {
        return make_domain(
            reactor, {.provider = "full", .device = "none"},
            [&](Counters& counters) { return std::make_unique<FullWorker>(reactor, counters); });
    };
    const auto server = domain(), client = domain();
    Report report;
    const auto listener = co_await server->listen("127.0.0.1:0", {}, report);
    EXPECT_TRUE(listener) << report.text();
    if (!listener) co_return;
    const auto made = co_await client->connect((*listener)->address(), {}, report);
    // Who reconnects goes on trying; what is refused is final.
    EXPECT_EQ(made.error().code, Code::no_memory);
    EXPECT_THAT(report.text(), testing::HasSubstr("has no memory left for another connection"));
    co_await (*listener)->close();
    co_await client->close();
    co_await server->close();
}
TEST(LaneDomain, AFullListenerRefusesNobody) {
    Report report;
    auto reactor = OsReactor::create({}, report);
    ASSERT_TRUE(reactor) << report.text();
    (*reactor)->run(connect_to_a_full_one(**reactor));
}

}  // namespace
}  // namespace ros2s::fabric::lanes
