// Metrics of sessions: whose requests they are, and how many sessions have their own.
#include "session_sources.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "ros2s/runtime/sim/world.h"

namespace ros2s::daemon {
namespace {

using namespace std::chrono_literals;

struct Rig {
    Rig()
        : tickets(world.core(), {.entropy = [this] { return world.core().secrets().next(); }}),
          sessions(world.core(), tickets, {}) {}
    ~Rig() { world.run(sessions.close_all()); }
    rpc::GuestMetrics& open(const std::string& subject, const std::string& program = "fio") {
        const auto opened = sessions.open({.subject = subject, .pool = "pool", .program = program});
        EXPECT_TRUE(opened);
        return *(*opened)->metrics;
    }
    // By name and labels.
    std::map<std::string, uint64_t> read(const std::vector<std::string>& containers) {
        std::map<std::string, uint64_t> values;
        const auto all = sources_of(
            sessions, [&](const session::Session&) { return containers; },
            [&](const session::Session&) { return not_durable; });
        for (const exporter::Source& source : all) {
            std::string labels;
            for (const auto& [name, text] : source.labels) {
                if (name != "session") labels += fmt::format(" {}={}", name, text);
            }
            source.list([&](std::string_view name, std::string_view, uint64_t value) {
                values[std::string(name) + labels] += value;
            });
        }
        return values;
    }

    NotDurable not_durable;  // of each session
    sim::World world{1};
    session::TicketTable tickets;
    session::SessionTable sessions;
};

TEST(SessionSources, RequestsAreCountedByKindAndOwner) {
    Rig rig;
    rpc::GuestMetrics& metrics = rig.open("CN=a", "fio, process 7");
    metrics.add(admission::Work::read, 4096, 2ms);
    metrics.add(admission::Work::read, 4096, 2ms);
    metrics.add(admission::Work::change, 0, 1ms);
    rig.not_durable = {.changes = 3, .bytes = 70, .age = 250ms};
    const auto values = rig.read({"b", "a", "b"});
    const std::string labels = " tenant=CN=a process=fio, process 7 container=pool/a, pool/b";
    EXPECT_EQ(values.at("ros2store_session_requests_total" + labels + " kind=read"), 2U);
    EXPECT_EQ(values.at("ros2store_session_requests_total" + labels + " kind=change"), 1U);
    EXPECT_EQ(values.at("ros2store_session_requests_total" + labels + " kind=write"), 0U);
    EXPECT_EQ(values.at("ros2store_session_bytes_total" + labels), 8192U);
    EXPECT_EQ(values.at("ros2store_session_busy_seconds_total" + labels), 5'000'000U);
    EXPECT_EQ(values.at("ros2store_session_volatile_changes" + labels), 3U);
    EXPECT_EQ(values.at("ros2store_session_volatile_bytes" + labels), 70U);
    EXPECT_EQ(values.at("ros2store_session_volatile_milliseconds" + labels), 250U);
}

TEST(SessionSources, FurtherSessionsOfATenantAreAddedUp) {
    Rig rig;
    for (int i = 0; i < 70; ++i) rig.open("CN=a", fmt::format("p{}", i)).bytes.add(2);
    rig.open("CN=b").bytes.add(5);
    const auto values = rig.read({});
    const auto bytes = [&](const std::string& labels) {
        return values.at("ros2store_session_bytes_total tenant=" + labels);
    };
    const auto has_own = [](const auto& each) {
        return each.first.starts_with("ros2store_session_bytes_total tenant=CN=a process=p");
    };
    EXPECT_EQ(std::ranges::count_if(values, has_own), 64);
    EXPECT_EQ(bytes("CN=a process=(others) container=(others)"), 12U);
    EXPECT_EQ(bytes("CN=b process=fio container=pool"), 5U);
}

TEST(SessionSources, AllHaveBounds) {
    Rig rig;
    for (int tenant = 0; tenant < 70; ++tenant) {
        for (int i = 0; i < 20; ++i) rig.open(fmt::format("CN={}", tenant)).bytes.add(1);
    }
    const auto all = sources_of(
        rig.sessions, [](const session::Session&) { return std::vector<std::string>{}; },
        [](const session::Session&) { return NotDurable{}; });
    EXPECT_LE(all.size(), 5U * (512 + 64 + 1));
    uint64_t bytes = 0;
    for (const auto& [name, value] : rig.read({"a", "b", "c", "d", "e", "f"})) {
        if (name.starts_with("ros2store_session_bytes")) bytes += value;
    }
    EXPECT_EQ(bytes, 1400U);
}

}  // namespace
}  // namespace ros2s::daemon
