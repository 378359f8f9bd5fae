#include "audit_lines.h"

#include <fmt/format.h>
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
    const auto knock = [&] { audit.refused("CN=bob", "bob knocked"); };
    for (int i = 0; i < 1000; ++i) knock();
    EXPECT_EQ(lines.size(), audit_lines_per_second_max);
    EXPECT_EQ(lines.front(), "audit: bob knocked");
    world.run(pass(world.core()));
    knock();
    EXPECT_EQ(lines.back(), "audit: bob knocked (980 earlier ones were not logged)");
    knock();
    EXPECT_EQ(lines.back(), "audit: bob knocked");
    EXPECT_EQ(audit.count(), 1002U);
}

TEST(AuditLines, SessionsOfOneSubjectDoNotHideOtherLines) {
    sim::World world(1);
    std::vector<std::string> lines;
    AuditLines audit(world.core(),
                     Log([&lines](LogLevel, std::string_view line) { lines.emplace_back(line); }));
    for (int i = 0; i < 1000; ++i) audit.session("CN=bob", "session 1 opened by CN=bob", "");
    EXPECT_EQ(lines.size(), audit_lines_per_second_max);
    EXPECT_EQ(lines.front(), "session 1 opened by CN=bob");
    audit.done("CN=bob", "bob destroyed it");
    EXPECT_EQ(lines.back(), "audit: bob destroyed it (980 earlier ones were not logged)");
    audit.session("CN=alice", "session 2 opened by CN=alice", "");
    EXPECT_EQ(lines.back(), "session 2 opened by CN=alice");
    EXPECT_EQ(audit.count(), 1U);
}

TEST(AuditLines, AFloodDoesNotHideWhatAnotherDoes) {
    sim::World world(1);
    std::vector<std::string> lines;
    AuditLines audit(world.core(), Log([&lines](LogLevel level, std::string_view line) {
                         lines.emplace_back(fmt::format("{}: {}", to_string(level), line));
                     }));
    for (int i = 0; i < 1000; ++i) audit.refused("CN=bob", "bob knocked");
    audit.done("CN=alice", "alice destroyed it");
    EXPECT_EQ(lines.back(), "info: audit: alice destroyed it (980 earlier ones were not logged)");
    for (int i = 0; i < 1000; ++i) audit.refused("CN=bob", "bob knocked");
    audit.done("CN=bob", "bob destroyed it");
    EXPECT_EQ(lines.back(), "info: audit: bob destroyed it (1000 earlier ones were not logged)");
    // Many names do not bypass the limit.
    for (int i = 0; i < 1000; ++i) audit.refused(fmt::format("CN=bob-{}", i), "bob knocked");
    EXPECT_LE(lines.size(), 2 + audit_lines_per_second_max * 2 + audit_subjects_max);
}

}  // namespace
}  // namespace ros2s::session
