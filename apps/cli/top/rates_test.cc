#include "rates.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <limits>

namespace ros2s::cli {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr std::string_view gauges =
    "ros2store_sessions 3\nros2store_admission_inside 2\nros2store_admission_waiting 1\n";

Result<DaemonCounts> counts(const std::string& page, Report& report) {
    const auto samples = parse_samples(page, report);
    return samples ? counts_in(*samples, report) : fail(samples.error());
}

TenantRates rates(const TenantCounts& before, const TenantCounts& now, double seconds = 2) {
    return rates_between({.tenants = {{"a", before}}}, {.tenants = {{"a", now}}}, seconds).at(0);
}

TEST(TopCounts, PageIsParsed) {
    Report report;
    const auto all = counts(
        std::string(gauges) +
            "ros2store_tenant_requests_total{tenant=\"CN=a\"} 7\n"
            "ros2store_tenant_names_total{tenant=\"CN=a\"} 8\n"
            "ros2store_tenant_bytes_total{tenant=\"CN=b\"} 4096\n"
            "ros2store_tenant_refused_total{tenant=\"CN=b\"} 1\n"
            "ros2store_tenant_sessions{tenant=\"CN=b\"} 2\n"
            "ros2store_tenant_queued_seconds_total{tenant=\"CN=a\"} 0.5\n"
            "ros2store_tenant_throttled_seconds_total{tenant=\"CN=a\"} 0.25\n"
            "ros2store_tenant_request_duration_seconds_sum{tenant=\"CN=a\"} 1.5\n"
            "ros2store_tenant_request_duration_seconds_bucket{tenant=\"CN=a\",le=\"0.001\"} 2\n"
            "ros2store_tenant_request_duration_seconds_bucket{tenant=\"CN=a\",le=\"+Inf\"} 3\n"
            "ros2store_engine_volatile_groups{pool=\"a\"} 3\n"
            "ros2store_engine_volatile_milliseconds{pool=\"a\"} 40\n"
            "ros2store_engine_volatile_milliseconds{pool=\"b\"} 10\n"
            "something_else{tenant=\"CN=c\"} 4\n",
        report);
    ASSERT_TRUE(all) << report.text();
    EXPECT_EQ(all->sessions, 3);
    EXPECT_EQ(all->inside, 2);
    EXPECT_EQ(all->volatile_groups, 3);
    EXPECT_EQ(all->volatile_milliseconds, 40);
    EXPECT_EQ(all->waiting, 1);
    ASSERT_EQ(all->tenants.size(), 2U);
    const TenantCounts& a = all->tenants.at("CN=a");
    EXPECT_EQ(a.requests, 7);
    EXPECT_EQ(a.names, 8);
    EXPECT_EQ(a.queued, 0.5);
    EXPECT_EQ(a.throttled, 0.25);
    EXPECT_EQ(a.busy, 1.5);
    EXPECT_EQ(a.buckets, (std::map<double, double>{{0.001, 2}, {infinity, 3}}));
    EXPECT_EQ(all->tenants.at("CN=b").bytes, 4096);
    EXPECT_EQ(all->tenants.at("CN=b").refused, 1);
    EXPECT_EQ(all->tenants.at("CN=b").sessions, 2);
}

TEST(TopCounts, PageOfAnotherProgramIsRefused) {
    for (const std::string& page :
         {std::string("go_goroutines 7\n"), std::string("ros2store_sessions 1\n"),
          std::string(gauges) + "ros2store_tenant_bytes_total 1\n",
          std::string(gauges) + "ros2store_tenant_bytes_total{tenant=\"a\"} -1\n",
          std::string(gauges) + "ros2store_tenant_bytes_total{tenant=\"a\"} NaN\n",
          std::string(gauges) +
              "ros2store_tenant_request_duration_seconds_bucket{tenant=\"a\",le=\"x\"} 1\n"}) {
        Report report;
        const auto all = counts(page, report);
        ASSERT_FALSE(all) << page;
        EXPECT_EQ(all.error().code, Code::corrupt);
        EXPECT_NE(report.text(), "");
    }
}

TEST(TopRates, CountersGiveRatesPerSecond) {
    const TenantRates rate =
        rates({.requests = 10, .names = 20, .bytes = 30, .refused = 1, .busy = 1, .queued = 2},
              {.requests = 14, .names = 20, .bytes = 4126, .refused = 2, .busy = 4, .queued = 3});
    EXPECT_EQ(rate.requests, 2);
    EXPECT_EQ(rate.names, 0);
    EXPECT_EQ(rate.bytes, 2048);
    EXPECT_EQ(rate.refused, 0.5);
    EXPECT_EQ(rate.busy, 1.5);
    EXPECT_EQ(rate.queued, 0.5);
    EXPECT_EQ(rate.throttled, 0);
    EXPECT_FALSE(rate.p50);
    EXPECT_FALSE(rate.p99);
}

// A smaller number of sessions does not mean that the daemon restarted.
TEST(TopRates, SessionsAreTheCurrentNumber) {
    const TenantRates rate =
        rates({.requests = 1000, .sessions = 5}, {.requests = 1010, .sessions = 3});
    EXPECT_EQ(rate.sessions, 3);
    EXPECT_EQ(rate.requests, 5);
}

// One decreased counter shows that all counters restarted at 0, also those that are larger than
// before.
TEST(TopRates, RestartedCountersBeginAtZero) {
    const TenantRates rate =
        rates({.requests = 1000, .names = 2, .buckets = {{1, 1}, {infinity, 1000}}},
              {.requests = 10, .names = 6, .buckets = {{1, 10}, {infinity, 10}}});
    EXPECT_EQ(rate.requests, 5);
    EXPECT_EQ(rate.names, 3);
    ASSERT_TRUE(rate.p50);
    EXPECT_EQ(rate.p50->seconds, 0.5);
    // From the buckets alone.
    EXPECT_EQ(rates({.buckets = {{1, 5}, {infinity, 5}}}, {.buckets = {{1, 4}, {infinity, 5}}})
                  .p50->seconds,
              0.625);
}

TEST(TopRates, NewTenantIsCountedFromZero) {
    const DaemonCounts now{.tenants = {{"a", {.requests = 4}}, {"b", {.requests = 8}}}};
    const auto all = rates_between({.tenants = {{"a", {.requests = 4}}}}, now, 2);
    ASSERT_EQ(all.size(), 2U);
    EXPECT_EQ(all[0].requests, 0);
    EXPECT_EQ(all[1].requests, 4);
}

// Its counters cover hours. They were counted under another label before.
TEST(TopRates, TenantWithNewLabelHasNoRate) {
    const auto all =
        rates_between({.tenants = {{"(others)", {.requests = 1e6}}}},
                      {.tenants = {{"(others)", {.requests = 1e5}}, {"a", {.requests = 9e5}}}}, 2);
    ASSERT_EQ(all.size(), 2U);
    for (const TenantRates& each : all) EXPECT_EQ(each.requests, 0) << each.tenant;
}

TEST(TopRates, BusiestTenantComesFirst) {
    const DaemonCounts now{.tenants = {{"a", {.bytes = 9, .busy = 1}},
                                       {"b", {.bytes = 1, .busy = 3}},
                                       {"c", {.busy = 2}}}};
    std::string order;
    for (const TenantRates& each : rates_between({}, now, 1)) order += each.tenant;
    EXPECT_EQ(order, "bca");
}

TEST(TopQuantiles, QuantilesComeFromTheDifference) {
    const TenantCounts before{.buckets = {{1, 100}, {2, 100}, {4, 100}, {infinity, 100}}};
    const auto now = [&](double one, double two, double four, double more) {
        TenantCounts counts = before;
        counts.buckets[1] += one;
        counts.buckets[2] += two;
        counts.buckets[4] += four;
        counts.buckets[infinity] += more;
        return rates(before, counts);
    };
    EXPECT_FALSE(now(0, 0, 0, 0).p50);
    EXPECT_EQ(now(10, 10, 10, 10).p50, (Latency{.seconds = 0.5}));
    EXPECT_EQ(now(0, 0, 10, 10).p50, (Latency{.seconds = 3}));  // empty buckets come first
    EXPECT_EQ(now(5, 10, 10, 10).p50, (Latency{.seconds = 1}));
    EXPECT_EQ(now(50, 100, 100, 100).p99, (Latency{.seconds = 1.98}));
    EXPECT_EQ(now(98, 98, 98, 100).p50->seconds, 50.0 / 98);
    EXPECT_EQ(now(98, 98, 98, 100).p99, (Latency{.seconds = 4, .or_more = true}));
    EXPECT_EQ(now(0, 0, 0, 1).p50, (Latency{.seconds = 4, .or_more = true}));
    // The first sample has no buckets, or only the last one.
    EXPECT_EQ(rates({}, {.buckets = {{infinity, 3}}}).p50,
              (Latency{.seconds = 0, .or_more = true}));
}

TEST(TopTable, TenantsAreListed) {
    const std::vector<TenantRates> tenants{{.tenant = "CN=alice",
                                            .requests = 812.4,
                                            .names = 1.5,
                                            .bytes = 203.1 * (1 << 20),
                                            .busy = 1.25,
                                            .queued = 0.051,
                                            .sessions = 16,
                                            .p50 = Latency{.seconds = 0.0009},
                                            .p99 = Latency{.seconds = 0.5369, .or_more = true}},
                                           {.tenant = "CN=b"}};
    EXPECT_EQ(table_of(tenants, 9),
              (std::vector<std::string>{"          SESS      REQ    NAMES      MiB     P50     P99 "
                                        "   BUSY  QUEUED  THROTTLED  REFUSED",
                                        "TENANT               /s       /s       /s      ms      ms "
                                        "   ms/s    ms/s       ms/s       /s",
                                        "CN=alice    16      812     1.50      203    0.90    >537 "
                                        "   1250    51.0          0        0",
                                        "CN=b         0        0        0        0       -       - "
                                        "      0       0          0        0"}));
    const auto one = table_of(tenants, 1);
    ASSERT_EQ(one.size(), 4U);
    EXPECT_EQ(one.back(), "and 1 more");
    EXPECT_EQ(table_of({}, 9), std::vector<std::string>{"no tenant"});
    EXPECT_EQ(totals_of({.sessions = 1, .inside = 3, .waiting = 4}, tenants),
              "812 requests/s, 1.50 names/s, 203 MiB/s, 3 in progress, 4 waiting, 1 session");
    EXPECT_TRUE(totals_of({.volatile_groups = 7, .volatile_milliseconds = 250}, tenants)
                    .ends_with(", 7 groups of changes not durable, for 250 ms"));
}

constexpr std::string_view one_session =
    "ros2store_session_requests_total{tenant=\"a\",session=\"1\",process=\"p, process "
    "1\",container=\"pool/c\",kind=\"read\"} 7\n"
    "ros2store_session_bytes_total{tenant=\"a\",session=\"1\",process=\"p, process "
    "1\",container=\"pool/c\"} 4096\n"
    "ros2store_session_busy_seconds_total{tenant=\"a\",session=\"1\",process=\"p, process "
    "1\",container=\"pool/c\"} 0.5\n"
    "ros2store_session_volatile_bytes{tenant=\"a\",session=\"1\",process=\"p, process "
    "1\",container=\"pool/c\"} 99\n";

TEST(TopCounts, SessionsAreParsed) {
    Report report;
    const auto all = counts(std::string(gauges) + std::string(one_session), report);
    ASSERT_TRUE(all) << report.text();
    const SessionCounts& session = all->each_session.at({"a", "1"});
    EXPECT_EQ(session.process, "p, process 1");
    EXPECT_EQ(session.container, "pool/c");
    EXPECT_EQ(session.reads, 7);
    EXPECT_EQ(session.writes, 0);
    EXPECT_EQ(session.bytes, 4096);
    EXPECT_EQ(session.busy, 0.5);
    EXPECT_EQ(session.volatile_bytes, 99);
    for (const std::string& wrong :
         {std::string("ros2store_session_requests_total{tenant=\"a\",session=\"1\"} 1\n"),
          std::string("ros2store_session_requests_total{tenant=\"a\",kind=\"read\"} 1\n"),
          std::string("ros2store_session_bytes_total{session=\"1\"} 1\n"),
          std::string("ros2store_session_bytes_total{tenant=\"a\",session=\"1\"} -1\n")}) {
        EXPECT_FALSE(counts(std::string(gauges) + wrong, report)) << wrong;
    }
}

TEST(TopRates, SessionsAreAddedUp) {
    const DaemonCounts before{.each_session = {{{"a", "1"}, {"p", "c", 0, 0, 10, 2, 100, 1}},
                                               {{"a", "2"}, {"q", "c", 0, 0, 10, 0, 100, 1}}}};
    const DaemonCounts now{
        .each_session = {{{"a", "1"}, {"p", "c", 0, 0, 14, 4, 300, 2}},
                         {{"a", "2"}, {"q", "c", 0, 0, 4, 0, 40, 0.5}},  // it began again
                         {{"b", "3"}, {"p", "d", 8, 6, 0, 0, 0, 4}}}};
    const auto by = [&](By what) {
        std::vector<std::string> rows;
        for (const GroupRates& each : groups_between(before, now, 2, what)) {
            rows.push_back(fmt::format("{}: {} {} {} {} {} {} {}", each.name, each.sessions,
                                       each.looks, each.changes, each.reads, each.writes,
                                       each.bytes, each.busy));
        }
        return rows;
    };
    using Rows = std::vector<std::string>;
    EXPECT_EQ(by(By::tenant), (Rows{"b: 1 4 3 0 0 0 2", "a: 2 0 0 4 1 120 0.75"}));
    EXPECT_EQ(by(By::container), (Rows{"d: 1 4 3 0 0 0 2", "c: 2 0 0 4 1 120 0.75"}));
    EXPECT_EQ(by(By::process), (Rows{"p: 2 4 3 2 1 100 2.5", "q: 1 0 0 2 0 20 0.25"}));
    EXPECT_EQ(by(By::mount), (Rows{"d by p: 1 4 3 0 0 0 2", "c by p: 1 0 0 2 1 100 0.5",
                                   "c by q: 1 0 0 2 0 20 0.25"}));
}

TEST(TopTable, GroupsAreListed) {
    const std::vector<GroupRates> groups{{.name = "pool/main",
                                          .sessions = 2,
                                          .reads = 812.4,
                                          .volatile_changes = 5,
                                          .volatile_bytes = 2048,
                                          .volatile_seconds = 0.25}};
    EXPECT_EQ(table_of(groups, By::container, 9),
              (std::vector<std::string>{"           SESS    READS   WRITES    LOOKS  CHANGES      "
                                        "MiB    BUSY VOLATILE      OF  "
                                        "  FOR",
                                        "CONTAINER             /s       /s       /s       /s       "
                                        "/s    ms/s              KiB  "
                                        "   ms",
                                        "pool/main     2      812        0        0        0       "
                                        " 0       0        5    2.00  "
                                        "  250"}));
    EXPECT_EQ(table_of(std::vector<GroupRates>{}, By::mount, 9),
              std::vector<std::string>{"no mount"});
}

TEST(TopTable, ControlCharactersAreEscaped) {
    const auto shown = [](const std::string& name) {
        const std::string line = table_of({{.tenant = name}}, 1).at(2);
        return line.substr(0, line.find(' '));
    };
    EXPECT_EQ(shown("CN=\x1b[2J\r\n\x7f\xc2\x9b"
                    "1A"),
              "CN=\\x1b[2J\\x0d\\x0a\\x7f\\xc2\\x9b1A");
    EXPECT_EQ(shown(std::string(1000, '\x1b')).size(), 40U);
    EXPECT_EQ(shown(std::string(40, 'a')), std::string(40, 'a'));
}

}  // namespace
}  // namespace ros2s::cli
