// Requests for capabilities: a caller waits only for its own earlier requests. tests/daemons
// (delegated_test, delegated_attack_test, delegated_end_test) checks what is issued.
#include "issued_capabilities.h"

#include <gtest/gtest.h>

#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/sim/co_test.h"

namespace ros2s::engined {
namespace {

using namespace std::chrono_literals;

// An engine without an authority. It refuses each request in its turn.
struct Rig {
    sim::World world{1};
    Pools pools;
    session::TicketTable tickets{world.core(), {}};
    session::SessionTable sessions{world.core(), tickets, {}};
    admission::Admission admission{world.core(), {}};
    IssuedCapabilities capabilities{
        Environment{.reactor = world.core(), .blocking = world.blocking()},
        pools,
        sessions,
        admission,
        {.authority_file = "/nowhere/ca.crt"}};
};

Task<> ask(IssuedCapabilities& capabilities, Call call, std::string caller,
           std::vector<Code>& answers) {
    Report report;
    const auto issued = co_await capabilities.issue(call, caller, "here", "pool", {}, report);
    EXPECT_FALSE(issued);
    EXPECT_FALSE(report.empty());
    answers.push_back(issued ? Code::exists : issued.error().code);
}

CO_TEST(IssuedCapabilities, BusyCallerDelaysOnlyItself, Rig, rig) {
    Nursery nursery(rig.world.core(), 300);
    std::vector<Code> many, late, one;
    const Call soon{.deadline = rig.world.core().now() + 1ms};
    for (int i = 0; i < 200; ++i) {
        co_await nursery.spawn(ask(rig.capabilities, {}, "CN=many", many));
    }
    for (int i = 0; i < 50; ++i) {
        co_await nursery.spawn(ask(rig.capabilities, soon, "CN=many", late));
    }
    co_await ask(rig.capabilities, {}, "CN=one", one);
    EXPECT_EQ(one, std::vector{Code::denied});
    EXPECT_LE(many.size(), 12U) << "it waited for those that were in progress, and not for all";
    co_await nursery.join();
    EXPECT_EQ(many, std::vector(200, Code::denied));
    EXPECT_EQ(late, std::vector(50, Code::deadline));
}

// Otherwise the engine would start, and refuse each mount through a delegated DPU.
TEST(IssuedCapabilities, UnreadableAuthorityIsFoundAtStart) {
    Rig rig;
    Report report;
    EXPECT_EQ(rig.world.run(rig.capabilities.check_authority(report)).error().code,
              Code::not_found);
    for (const char* part : {"'capabilities: authority'", "/nowhere/ca.crt", "name the ca.crt"}) {
        EXPECT_NE(report.text().find(part), std::string::npos) << report.text();
    }
}

}  // namespace
}  // namespace ros2s::engined
