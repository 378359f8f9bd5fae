#include "audit_lines.h"

#include <gtest/gtest.h>

#include <vector>

#include "ros2s/runtime/sim/world.h"

namespace ros2s::session {
namespace {

Task<> pass(Reactor& reactor) { co_await sleep_for(reactor, std::chrono::seconds(1)); }

TEST(AuditLines, AFloodIsCountedAndNotWritten) {
    sim::World world(1);
    std::vector<std::string> lines;
    AuditLines audit(world.core(), Log([&lines](LogLevel level, std::string_view line) {
                         EXPECT_EQ(level, LogLevel::warning);
                         lines.emplace_back(line);
                     }));
    for (int i = 0; i < 1000; ++i) audit.say("bob knocked");
    EXPECT_EQ(lines.size(), audit_lines_per_second_max);
    EXPECT_EQ(lines.front(), "audit: bob knocked");
    world.run(pass(world.core()));
    audit.say("bob knocked");
    EXPECT_EQ(lines.back(), "audit: bob knocked (980 more before were not said)");
    audit.say("bob knocked");
    EXPECT_EQ(lines.back(), "audit: bob knocked");
    EXPECT_EQ(audit.count(), 1002U);
}

}  // namespace
}  // namespace ros2s::session
