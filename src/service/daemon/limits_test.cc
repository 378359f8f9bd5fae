// The setting `limits`: what it means, and what is refused. Its metrics.
#include "limits.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ros2s/runtime/sim/world.h"

namespace ros2s::daemon {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

TEST(DaemonLimits, SubjectsHaveLimitsAndOthersTheDefault) {
    Report report;
    const auto parsed = parse_limits({{"CN=alice",
                                       {{"weight", "4"},
                                        {"requests", "20000"},
                                        {"bytes", "500MiB"},
                                        {"names", "50"},
                                        {"burst", "1s"},
                                        {"sessions", "3"},
                                        {"handles", "400"},
                                        {"requests_in_flight", "5"},
                                        {"bytes_in_flight", "6MiB"}}},
                                      {"*", {{"bytes", "1MiB"}}}},
                                     {}, "dpu.yaml", report);
    ASSERT_TRUE(parsed) << report.text();
    EXPECT_EQ(parsed->by_account.at("CN=alice"),
              (admission::Allowance{.weight = 4,
                                    .requests = 20000,
                                    .bytes = uint64_t{500} << 20,
                                    .names = 50,
                                    .burst = 1s,
                                    .sessions = 3,
                                    .handles = 400,
                                    .requests_in_flight = 5,
                                    .bytes_in_flight = 6 << 20}));
    EXPECT_EQ(parsed->others, admission::Allowance{.bytes = 1 << 20});
    EXPECT_EQ(parse_limits({}, {}, "dpu.yaml", report)->others, admission::Allowance{});
}

TEST(DaemonLimits, InvalidLimitIsRefused) {
    struct Case {
        LimitSettings settings;
        std::vector<std::string> told;
    };
    for (const Case& each : std::initializer_list<Case>{
             {{{"alice", {}}}, {"'alice' is not the subject", "CN=alice", "certs show"}},
             {{{"", {}}}, {"'' is not the subject"}},
             {{{"CN=a", {{"iops", "5"}}}}, {"no limit 'iops'", "weight, requests, bytes"}},
             {{{"CN=a", {{"weight", "0"}}}}, {"weight", "1", "1000"}},
             {{{"CN=a", {{"weight", "-1"}}}}, {"weight", "\"-1\""}},
             {{{"CN=a", {{"bytes", "2TiB"}}}}, {"bytes", "1TiB"}},
             {{{"CN=a", {{"requests", "many"}}}}, {"requests", "\"many\""}},
             {{{"CN=a", {{"handles", "1.5"}}}}, {"handles", "\"1.5\""}},
             {{{"CN=a", {{"burst", "1h"}}}}, {"burst", "1min"}}}) {
        Report report;
        const auto parsed = parse_limits(each.settings, {}, "dpu.yaml", report);
        EXPECT_FALSE(parsed);
        EXPECT_THAT(report.text(), testing::StartsWith("dpu.yaml: limits: "));
        for (const std::string& text : each.told) EXPECT_THAT(report.text(), HasSubstr(text));
    }
}

TEST(DaemonLimits, MetricsAreByTenantAndBounded) {
    sim::World world(1);
    admission::Accounts accounts(world.core());
    for (int i = 0; i < 70; ++i) {
        admission::AccountMetrics& metrics = accounts.open(fmt::format("CN={}", i))->metrics;
        metrics.bytes.add(2);
        metrics.latency.add(40'000);
        metrics.latency.add(uint64_t{2} << 30);
    }
    uint64_t bytes = 0, others = 0;
    HistogramReading all{}, of_others{};
    const auto sources = sources_of(accounts);
    EXPECT_EQ(sources.size(), 65U);
    for (const exporter::Source& source : sources) {
        ASSERT_EQ(source.labels.size(), 1U);
        source.list([&](std::string_view name, std::string_view, uint64_t value) {
            if (name != "ros2store_tenant_bytes_total") return;
            bytes += value;
            if (source.labels[0].second == "(others)") others = value;
        });
        ASSERT_TRUE(source.times);
        source.times([&](std::string_view name, std::string_view, std::string_view operation,
                         const HistogramReading& times) {
            EXPECT_EQ(name, "ros2store_tenant_request_duration_seconds");
            EXPECT_EQ(operation, "");
            if (all.counts.empty()) {
                all = times;
            } else {
                all.add(times);
            }
            if (source.labels[0].second == "(others)") of_others = times;
        });
    }
    EXPECT_EQ(bytes, 140U);
    EXPECT_EQ(others, 12U);
    EXPECT_EQ(all.sum_ns, 70 * (40'000 + (uint64_t{2} << 30)));
    EXPECT_EQ(all.counts.at(1), 70U);
    EXPECT_EQ(all.counts.back(), 70U);
    EXPECT_EQ(of_others.sum_ns, 6 * (40'000 + (uint64_t{2} << 30)));
    EXPECT_EQ(of_others.counts.at(1), 6U);
    EXPECT_EQ(of_others.counts.back(), 6U);
}

}  // namespace
}  // namespace ros2s::daemon
