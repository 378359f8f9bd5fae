// Compares the closed formula of planning with the simulation, on clusters that were published. The
// bounds are those of docs/planning.md. ROS2STORE_TEST_SEEDS: how many seeds (the nightly run has
// more than the default).
#include "ros2s/sim/cluster/cluster.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace ros2s::sim::cluster {
namespace {

// The permitted difference between the rates of simulation and formula, for a full cluster, and up
// to this share of the first full resource.
constexpr double rate_bound = 0.03;
constexpr double share_trusted = 0.8;
// The 99th percentile is at most this multiple of the time of an unloaded request, up to that
// share.
constexpr double p99_bound = 6;

uint64_t seeds(uint64_t usual) {
    const char* const wanted = std::getenv("ROS2STORE_TEST_SEEDS");
    return wanted == nullptr ? usual : std::strtoull(wanted, nullptr, 10);
}

planning::Request request_of(double bytes) {
    std::ifstream file(ROS2STORE_COSTS);
    std::stringstream text;
    text << file.rdbuf();
    Report report;
    const auto costs = planning::parse_costs(text.str(), ROS2STORE_COSTS, report);
    EXPECT_TRUE(costs) << report.text();
    const auto request =
        planning::request_of(bytes, planning::Backend::engine, "ucx+tcp",
                             costs.value_or(planning::Costs{}), ROS2STORE_COSTS, report);
    EXPECT_TRUE(request) << report.text();
    return request.value_or(planning::Request{});
}

struct Case {
    std::string name;
    Cluster cluster;
    uint64_t requests;
};

// The evaluation of arXiv 2509.13997 has one host, one BlueField-3 and one server, with one and
// with four devices. That of 3FS has about 500 clients with 200 Gbit/s and 180 servers with 400
// Gbit/s and 16 devices (README of github.com/deepseek-ai/3FS); its size of reads is not published.
// With 4 KiB it is taken at a tenth, because a run must be longer than the queues take to fill.
std::vector<Case> published() {
    const planning::Request small = request_of(4096), large = request_of(1 << 20);
    const planning::Hardware of_3fs{.dpu_network_gbits = 200};
    std::vector<Case> cases{
        {"3FS, 1 MiB", {500, 1, 180, of_3fs, large}, 60'000},
        {"3FS at a tenth, 4 KiB", {50, 1, 18, of_3fs, small}, 60'000},
    };
    // A DPU so small that a host needs two.
    cases.push_back({"8 hosts with 2 slow DPUs each, 4 servers, 1 MiB",
                     {8, 2, 4, {.dpu_core_percent = 25}, large},
                     20'000});
    for (const uint32_t devices : {1u, 4u}) {
        const planning::Hardware of_paper{.server_devices = devices};
        cases.push_back({fmt::format("paper with {} devices, 1 MiB", devices),
                         {1, 1, 1, of_paper, large},
                         20'000});
        cases.push_back({fmt::format("paper with {} devices, 4 KiB", devices),
                         {1, 1, 1, of_paper, small},
                         20'000});
    }
    return cases;
}

// The rate of a simulation in which requests arrive at this share of the formula's rate.
Outcome at_share(const Case& each, double share, Load load) {
    load.requests = seeds(1) > 1 ? 5 * each.requests : each.requests;
    load.requests_per_s = share * each.cluster.requests_per_s_max();
    const Outcome found = simulate(each.cluster, load);
    fmt::print(
        "{}, seed {}, share {:.2f}: {:.0f} requests/s, {:.3f} of those that arrive; p50 {:.2f} "
        "and p99 {:.2f} times an unloaded request's time\n",
        each.name, load.seed, share, found.requests_per_s,
        found.requests_per_s / load.requests_per_s, found.p50_s / found.unloaded_s,
        found.p99_s / found.unloaded_s);
    return found;
}

TEST(PlanningFormula, RateMatchesTheSimulationUpTo80Percent) {
    for (const Case& each : published()) {
        for (uint64_t seed = 1; seed <= seeds(1); ++seed) {
            for (const double share : {0.4, share_trusted}) {
                const Outcome found =
                    at_share(each, share, {.seed = seed, .service = Service::exponential});
                const double offered = share * each.cluster.requests_per_s_max();
                EXPECT_NEAR(found.requests_per_s / offered, 1, rate_bound) << each.name;
                EXPECT_LT(found.p99_s, p99_bound * found.unloaded_s) << each.name;
            }
        }
    }
}

// The number of requests that each host keeps in flight so that the first resource is full: three
// times the result of Little's law.
uint32_t enough_in_flight(const Cluster& cluster) {
    const double unloaded_s = simulate(cluster, {.requests = 1}).unloaded_s;
    return static_cast<uint32_t>(
        std::ceil(3 * cluster.requests_per_s_max() * unloaded_s / cluster.hosts));
}

// A full cluster reaches the rate of the formula, and no more.
TEST(PlanningFormula, RateMatchesAFullCluster) {
    for (const Case& each : published()) {
        const uint32_t in_flight = enough_in_flight(each.cluster);
        // The queues reach their lengths after a few times the number of requests in flight.
        const uint64_t requests =
            std::max(each.requests, uint64_t{8} * in_flight * each.cluster.hosts);
        const Outcome found =
            simulate(each.cluster, {.requests = requests, .in_flight = in_flight});
        const double ratio = found.requests_per_s / each.cluster.requests_per_s_max();
        fmt::print("{}, full, {} in flight in each host: {:.3f} of the formula\n", each.name,
                   in_flight, ratio);
        EXPECT_NEAR(ratio, 1, rate_bound) << each.name;
    }
}

// If more requests arrive than the formula allows, fewer are completed: new requests take the cores
// from those that are almost done.
TEST(PlanningFormula, OverloadMakesItTooHigh) {
    for (const Case& each : published()) {
        if (each.name != "paper with 4 devices, 4 KiB") continue;
        const Outcome found = at_share(each, 1.5, {.seed = 1});
        const double ratio = found.requests_per_s / each.cluster.requests_per_s_max();
        EXPECT_LT(ratio, 0.95);
        EXPECT_GT(ratio, 0.5);
    }
}

// If the requests are not spread evenly, the most loaded device or server is full before the
// formula says. The formula is then too high, and the simulation shows by how much.
TEST(PlanningFormula, FewObjectsOrSkewMakeItTooHigh) {
    const Case cluster{"16 hosts, 4 servers",
                       {16, 1, 4, {}, request_of(1 << 20)},
                       seeds(1) > 1 ? 400'000u : 50'000u};
    const double most = cluster.cluster.requests_per_s_max();
    const auto rate = [&](uint64_t objects, double skew) {
        double sum = 0;
        const uint64_t runs = seeds(1);
        for (uint64_t seed = 1; seed <= runs; ++seed) {
            sum += simulate(cluster.cluster, {.seed = seed,
                                              .requests = cluster.requests,
                                              .in_flight = 48,
                                              .objects = objects,
                                              .skew = skew})
                       .requests_per_s;
        }
        const double part = sum / static_cast<double>(runs) / most;
        fmt::print("{} objects, skew {:.1f}: {:.2f} of the formula\n", objects, skew, part);
        return part;
    };
    EXPECT_GT(rate(0, 0), 0.9);
    double last = rate(64'000, 0);
    EXPECT_GT(last, 0.9);
    for (const uint64_t objects : {640u, 64u, 16u}) {
        const double now = rate(objects, 0);
        EXPECT_LT(now, last);
        last = now;
    }
    EXPECT_LT(last, 0.7);
    last = 2;
    for (const double skew : {0.6, 0.9, 1.2}) {
        const double now = rate(64'000, skew);
        EXPECT_LT(now, last);
        last = now;
    }
    EXPECT_LT(last, 0.6);
}

TEST(PlanningFormula, FewRequestsInFlightGiveALowerRate) {
    const Case cluster{"16 hosts, 4 servers", {16, 1, 4, {}, request_of(1 << 20)}, 50'000};
    const double most = cluster.cluster.requests_per_s_max();
    double last = 0;
    for (const uint32_t in_flight : {1u, 4u, 16u, 64u}) {
        const Outcome found = simulate(
            cluster.cluster, {.seed = 1, .requests = cluster.requests, .in_flight = in_flight});
        fmt::print("{} in flight in each host: {:.2f} of the formula\n", in_flight,
                   found.requests_per_s / most);
        EXPECT_GT(found.requests_per_s, last);
        // Little's law: the number of requests in flight bounds the rate.
        EXPECT_LT(found.requests_per_s,
                  (1 + rate_bound) * in_flight * cluster.cluster.hosts / found.unloaded_s);
        last = found.requests_per_s;
    }
    EXPECT_GT(last, 0.9 * most);
}

TEST(PlanningFormula, LatencyGrowsAsTheFirstResourceFills) {
    const Case cluster{"16 hosts, 4 servers", {16, 1, 4, {}, request_of(1 << 20)}, 50'000};
    double last = 0;
    for (const double share : {0.5, 0.7, 0.8, 0.9, 0.95, 0.98}) {
        const Outcome found =
            at_share(cluster, share, {.seed = 1, .service = Service::exponential});
        EXPECT_GT(found.p99_s, last);
        last = found.p99_s;
    }
}

// The same seed gives the same run.
TEST(ClusterSimulation, SeedDeterminesTheRun) {
    const Cluster cluster{2, 1, 2, {}, request_of(4096)};
    const auto run = [&](uint64_t seed) {
        return simulate(cluster, {.seed = seed, .requests = 5000, .requests_per_s = 1e5});
    };
    EXPECT_EQ(run(7).p99_s, run(7).p99_s);
    EXPECT_NE(run(7).p99_s, run(8).p99_s);
}

// A queue with one place, fixed service and random arrivals (M/D/1): a request waits
// share / (2 (1 - share)) services in the mean. It is the one queue with a known answer.
TEST(ClusterSimulation, WaitMatchesQueueingTheory) {
    planning::Hardware hardware;
    hardware.host_link_gbits = 8;  // 1 GB/s
    const Cluster cluster{1, 1, 1, hardware, {.bytes = 1e6}};
    EXPECT_NEAR(cluster.requests_per_s_max(), 1000, 1e-6);
    double waited = 0;
    for (uint64_t seed = 1; seed <= 5; ++seed) {
        const Outcome found =
            simulate(cluster, {.seed = seed, .requests = 40'000, .requests_per_s = 800});
        waited += (found.mean_s - found.unloaded_s) / 1e-3 / 5;
    }
    EXPECT_NEAR(waited, 0.8 / (2 * (1 - 0.8)), 0.1);
}

}  // namespace
}  // namespace ros2s::sim::cluster
