#include "audit_lines.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ros2s/runtime/sim/world.h"

namespace ros2s::session {
namespace {

Task<> pass(Reactor& reactor) { co_await sleep_for(reactor, std::chrono::seconds(1)); }

// The audit log of a server, without the fields of its lines.
struct AuditRig {
    // Empty: none was written.
    std::string said(std::string_view subject, AuditAction action, bool is_refused,
                     std::string_view text) {
        lines.clear();
        audit.say({.subject = subject,
                   .peer = "unix:",
                   .session = 0U,
                   .action = action,
                   .object = AuditObject{},
                   .decision = is_refused ? AuditDecision::refused : AuditDecision::allowed,
                   .reason = is_refused ? std::optional(Error{.code = Code::denied}) : std::nullopt,
                   .text = text});
        return lines.empty() ? "" : lines.back().substr(0, lines.back().find(" ["));
    }
    std::string refused(std::string_view subject) {
        return said(subject, AuditAction::use, true, "knocked");
    }
    std::string done(std::string_view subject) {
        return said(subject, AuditAction::destroy, false, "destroyed it");
    }
    std::string session(std::string_view subject) {
        return said(subject, AuditAction::session, false, "session 1 opened");
    }
    // How many of that many events have a line.
    int written(int events, auto make) {
        int count = 0;
        for (int i = 0; i < events; ++i) count += make(i).empty() ? 0 : 1;
        return count;
    }
    void pass_a_second() { world.run(pass(world.core())); }

    sim::World world{1};
    std::vector<std::string> lines;
    AuditLines audit{world.core(), Log([this](LogLevel level, std::string_view line) {
                         lines.emplace_back(fmt::format("{}: {}", to_string(level), line));
                     })};
};

constexpr int most = audit_lines_per_second_max, in_all = audit_lines_in_all_max;

TEST(AuditLines, FloodIsCountedAndLimited) {
    AuditRig rig;
    const auto knock = [&](int) { return rig.refused("CN=bob"); };
    EXPECT_EQ(knock(0), "warning: audit: knocked");
    EXPECT_EQ(rig.written(999, knock), most - 1);
    rig.pass_a_second();
    EXPECT_EQ(knock(0), "warning: audit: knocked (980 earlier ones were not logged)");
    EXPECT_NE(rig.lines.back().find(" left_out=980]"), std::string::npos) << rig.lines.back();
    EXPECT_EQ(knock(0), "warning: audit: knocked");
    EXPECT_EQ(rig.audit.metrics().events.value(), 1002U);
    EXPECT_EQ(rig.audit.metrics().left_out.value(), 980U);
}

TEST(AuditLines, SessionFloodDoesNotHideOtherLines) {
    AuditRig rig;
    EXPECT_EQ(rig.session("CN=bob"), "info: session 1 opened");
    EXPECT_EQ(rig.written(999, [&](int) { return rig.session("CN=bob"); }), most - 1);
    EXPECT_EQ(rig.done("CN=bob"), "info: audit: destroyed it (980 earlier ones were not logged)");
    EXPECT_EQ(rig.session("CN=alice"), "info: session 1 opened");
}

TEST(AuditLines, FloodDoesNotHideAnotherSubject) {
    AuditRig rig;
    const auto knock = [&](int) { return rig.refused("CN=bob"); };
    EXPECT_EQ(rig.written(1000, knock), most);
    EXPECT_EQ(rig.done("CN=alice"), "info: audit: destroyed it") << "the number is of bob's";
    EXPECT_EQ(rig.written(1000, knock), 0);
    EXPECT_EQ(rig.done("CN=bob"), "info: audit: destroyed it (1980 earlier ones were not logged)");
    EXPECT_EQ(rig.done("CN=bob"), "info: audit: destroyed it");
}

TEST(AuditLines, ManySubjectsDoNotBypassTheLimit) {
    AuditRig rig;
    const auto knock = [&](int i) { return rig.refused(fmt::format("CN=bob-{}", i)); };
    // The last of the places is shared by all further ones.
    EXPECT_EQ(rig.written(1000, knock), static_cast<int>(audit_subjects_max) + most);
    rig.pass_a_second();
    const auto few = [&](int i) { return rig.refused(fmt::format("CN=bob-{}", i % 40)); };
    EXPECT_EQ(rig.written(10'000, few), in_all);
    rig.pass_a_second();
    const auto flood = [&](int i) { return rig.refused(fmt::format("CN=bob-{}", i % 10)); };
    EXPECT_EQ(rig.written(1000, flood), in_all);
    EXPECT_NE(rig.refused("CN=alice"), "") << "ten subjects do not hide another one";
    EXPECT_EQ(rig.refused("CN=alice"), "");
}

// The numbers of left-out lines are bounded, too. Those without a place share one.
TEST(AuditLines, SubjectsWithoutPlaceShareOneCount) {
    AuditRig rig;
    const auto twice = [&](int i) { return rig.refused(fmt::format("CN=bob-{}", i / 2 % 100)); };
    EXPECT_EQ(rig.written(20'000, twice), in_all);
    rig.pass_a_second();
    EXPECT_NE(rig.refused("CN=bob-3").find("earlier ones were not logged"), std::string::npos);
    EXPECT_NE(rig.refused("CN=alice").find("earlier ones were not logged"), std::string::npos)
        << "the number of those without a place";
    EXPECT_EQ(rig.refused("CN=alice"), "warning: audit: knocked");
}

TEST(AuditLines, ManySubjectsDoNotHideUnauthenticatedPeers) {
    AuditRig rig;
    EXPECT_NE(rig.refused(""), "");
    const auto knock = [&](int i) { return rig.refused(fmt::format("CN=bob-{}", i)); };
    EXPECT_LT(rig.written(1000, knock), in_all);
    EXPECT_NE(rig.refused(""), "");
}

TEST(AuditLines, ControlCharactersAreEscaped) {
    AuditRig rig;
    EXPECT_EQ(rig.said("CN=bob", AuditAction::create, true, "may not create 'a\nb\x7f'"),
              "warning: audit: may not create 'a\\x0ab\\x7f'");
}

TEST(AuditLines, RefusedRequestsHaveTheirOwnLimit) {
    AuditRig rig;
    const auto request = [&](int) {
        return rig.said("CN=bob", AuditAction::write, true, "write was refused");
    };
    EXPECT_EQ(request(0), "info: audit: write was refused");
    EXPECT_EQ(rig.written(999, request), most - 1);
    EXPECT_FALSE(rig.audit.has_room_for_request("CN=bob"));
    EXPECT_TRUE(rig.audit.has_room_for_request("CN=alice"));
    EXPECT_EQ(rig.refused("CN=bob"), "warning: audit: knocked (981 earlier ones were not logged)");
}

}  // namespace
}  // namespace ros2s::session
