#include "ros2s/planning/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ros2s::planning {
namespace {

using testing::HasSubstr;

constexpr std::string_view provider = "ucx+tcp";

Cost cost(double host_us, double dpu_us, double server_us, double bytes) {
    return {.source = "measured",
            .host_us = host_us,
            .dpu_us = dpu_us,
            .server_us = server_us,
            .network_bytes = bytes + 200,
            .device_operations = 1,
            .device_bytes = bytes};
}
Costs costs_of(Backend backend = Backend::engine) {
    Costs costs;
    costs.requests[Costs::key(backend, provider, "read-4096")] = cost(2, 8, 10, 4096);
    costs.requests[Costs::key(backend, provider, "read-1048576")] = cost(100, 400, 500, 1 << 20);
    return costs;
}
Plan planned(const Demand& demand, const Hardware& hardware = {}, const Costs& costs = costs_of(),
             Backend backend = Backend::engine) {
    Report report;
    const auto made = plan(demand, hardware, backend, provider, costs, "costs.json", report);
    EXPECT_TRUE(made) << report.text();
    return made.value_or(Plan{});
}
const Resource& resource(const Plan& plan, std::string_view of, std::string_view name) {
    for (const Resource& each : plan.resources)
        if (each.of == of && each.name == name) return each;
    ADD_FAILURE() << of << " " << name;
    return plan.resources.front();
}

TEST(Demand, TextIsParsed) {
    Report report;
    const auto demand = parse_demand("1024", "2.5", "150kB", report);
    ASSERT_TRUE(demand) << report.text();
    EXPECT_EQ(demand->gpus, 1024u);
    EXPECT_EQ(demand->rate, 2.5);
    EXPECT_EQ(demand->sample_bytes, 150'000u);
}

TEST(Demand, InvalidTextIsExplained) {
    struct Case {
        std::string_view gpus, rate, sample, says;
    };
    for (const auto& [gpus, rate, sample, says] : std::initializer_list<Case>{
             {"0", "1", "1",
              "--gpus takes a number of GPUs, 1 to 10000000; the given value is '0'"},
             {"-8", "1", "1", "--gpus"},
             {"1.5", "1", "1", "--gpus"},
             {"99999999999999999999", "1", "1", "--gpus"},
             {"", "1", "1", "--gpus"},
             {"8", "0", "1", "--rate takes samples per second of one GPU"},
             {"8", "-1", "1", "--rate"},
             {"8", "nan", "1", "--rate"},
             {"8", "inf", "1", "--rate"},
             {"8", "1e400", "1", "--rate"},
             {"8", "1e-400", "1", "--rate"},
             {"8", "2e9", "1", "--rate"},
             {"8", "many", "1", "--rate"},
             {"8", "1", "0", "--sample takes the bytes of a sample"},
             {"8", "1", "-4096", "--sample"},
             {"8", "1", "1.5MiB", "--sample"},
             {"8", "1", "2000TiB", "--sample"},
             {"8", "1", "99999999999TiB", "--sample"},
             {"10000000", "1e9", "1024TiB", "more than any storage has; check the units"}}) {
        Report report;
        EXPECT_FALSE(parse_demand(gpus, rate, sample, report)) << gpus << rate << sample;
        EXPECT_THAT(report.text(), HasSubstr(says));
    }
}

TEST(RequestCost, CostLiesOnTheLineThroughTwoSizes) {
    Report report;
    const auto at = [&](double bytes) {
        return *request_of(bytes, Backend::engine, provider, costs_of(), "f", report);
    };
    EXPECT_NEAR(at(4096).dpu_us, 8, 1e-9);
    EXPECT_NEAR(at(1 << 20).dpu_us, 400, 1e-9);
    EXPECT_NEAR(at((4096 + (1 << 20)) / 2.0).dpu_us, 204, 1e-9);
    EXPECT_NEAR(at(4096).network_bytes, 4296, 1e-9);
    EXPECT_NEAR(at(8192).device_operations, 1, 1e-9);
    // A cost that falls with the size is noise. The cost of the larger one then has no part per
    // byte.
    Costs noisy = costs_of();
    noisy.requests[Costs::key(Backend::engine, provider, "read-1048576")].host_us = 1;
    EXPECT_EQ(request_of(1 << 19, Backend::engine, provider, noisy, "f", report)->host_us, 2);
}

TEST(RequestCost, MissingCostIsRefused) {
    const auto refused = [](Backend backend, std::string_view over, const Costs& costs) {
        Report report;
        const auto made = request_of(4096, backend, over, costs, "costs.json", report);
        EXPECT_EQ(made.error().code, Code::not_found);
        return report.text();
    };
    EXPECT_EQ(refused(Backend::engine, "ucx+rc", costs_of()),
              "costs.json has no cost of read-4096 with engine behind the DPU over ucx+rc; there "
              "are costs of ucx+tcp");
    EXPECT_THAT(refused(Backend::rados, provider, costs_of()),
                HasSubstr("no cost of read-4096 with rados behind the DPU over ucx+tcp; measure it "
                          "with ./dev bench costs --costs FILE where Ceph's packages are"));
    EXPECT_THAT(refused(Backend::daos, provider, costs_of()),
                HasSubstr("no cost of read-4096 with daos behind the DPU over ucx+tcp; nothing "
                          "here measures DAOS"));
    EXPECT_THAT(refused(Backend::engine, provider, Costs{}), HasSubstr("./dev bench costs"));
    Costs some = costs_of();
    some.requests[Costs::key(Backend::engine, provider, "read-1048576")].dpu_us.reset();
    EXPECT_THAT(refused(Backend::engine, provider, some),
                HasSubstr("costs.json has no dpu_us of read-1048576"));
}

// By hand: 64 GPUs × 2,000 samples/s × 4 KiB are 128,000 requests/s and 524,288,000 B/s.
TEST(ClusterPlan, PlanMatchesTheHandCalculation) {
    const Plan made = planned({.gpus = 64, .rate = 2000, .sample_bytes = 4096});
    EXPECT_EQ(made.bytes_per_s, 524'288'000);
    EXPECT_EQ(made.requests_per_s, 128'000);
    EXPECT_EQ(made.hosts, 8u);
    EXPECT_EQ(made.dpus(), 8u);
    EXPECT_EQ(made.servers, 1u);
    EXPECT_NEAR(resource(made, "host", "cores").asked, 0.256, 1e-9);
    EXPECT_NEAR(resource(made, "DPU", "cores").asked, 1.024, 1e-9);
    EXPECT_NEAR(resource(made, "server", "cores").asked, 1.28, 1e-9);
    EXPECT_EQ(made.engines, 2u);  // 1.28 cores, each filled to 0.8
    EXPECT_EQ(made.dpu_daemons_per_dpu, 1u);
    EXPECT_NEAR(resource(made, "server", "network port").share(), 128'000 * 4296.0 / 50e9, 1e-9);
    EXPECT_NEAR(resource(made, "server", "device operations").share(), 128'000 / (16 * 900e3),
                1e-9);
    EXPECT_EQ(made.resources.front().of, "server");
    EXPECT_EQ(made.resources.front().name, "cores");
    EXPECT_FALSE(made.look_ups);
}

TEST(ClusterPlan, LargeSampleIsSeveralRequests) {
    const Plan made = planned({.gpus = 8, .rate = 10, .sample_bytes = (2 << 20) + 1});
    EXPECT_EQ(made.requests_per_sample, 3);
    EXPECT_EQ(made.requests_per_s, 240);
    EXPECT_NEAR(made.request.bytes * 3, (2 << 20) + 1, 1e-6);
}

// Every share stays within the utilisation, and one machine fewer would exceed it.
TEST(ClusterPlan, MachineCountIsSufficientAndMinimal) {
    for (const uint64_t gpus : {8u, 100u, 10'000u}) {
        for (const double rate : {1.0, 100.0, 20'000.0}) {
            for (const uint64_t bytes : {512u, 4096u, 150'000u, 64u << 20}) {
                const Plan made = planned({.gpus = gpus, .rate = rate, .sample_bytes = bytes});
                double server = 0, dpu = 0;
                for (const Resource& each : made.resources) {
                    if (each.of == "host") continue;
                    EXPECT_LE(each.share(), 0.8 + 1e-6) << gpus << " " << rate << " " << bytes;
                    double& most = each.of == "server" ? server : dpu;
                    most = std::max(most, each.share());
                }
                const auto servers = static_cast<double>(made.servers);
                if (made.servers > 1) {
                    EXPECT_GT(server * servers / (servers - 1), 0.8);
                }
                const auto dpus = static_cast<double>(made.dpus_per_host);
                if (made.dpus_per_host > 1) {
                    EXPECT_GT(dpu * dpus / (dpus - 1), 0.8);
                }
            }
        }
    }
}

TEST(ClusterPlan, FirstFullResourceIsNamed) {
    struct Case {
        Hardware hardware;
        std::string_view of, name;
    };
    for (const auto& [hardware, of, name] : std::initializer_list<Case>{
             {{.host_cores = 1}, "host", "cores"},
             {{.host_link_gbits = 1}, "DPU", "link to its host"},
             {{.dpu_cores = 1, .dpu_core_percent = 10}, "DPU", "cores"},
             {{.dpu_network_gbits = 1}, "DPU", "network port"},
             {{.dpu_memory_bandwidth = 10'000'000}, "DPU", "memory bandwidth"},
             {{.server_cores = 1}, "server", "cores"},
             {{.server_network_gbits = 1}, "server", "network port"},
             {{.device_bandwidth = 1'000'000}, "server", "device bandwidth"},
             {{.device_operations = 1}, "server", "device operations"}}) {
        Report report;
        const auto request =
            request_of(1 << 20, Backend::engine, provider, costs_of(), "f", report);
        const auto all = resources_of(*request, 8000, 1, 1, 1, hardware);
        EXPECT_EQ(all.front().of, of);
        EXPECT_EQ(all.front().name, name);
    }
}

// By hand: 192,000 requests/s × 10 µs are 1.92 cores, which one server has.
TEST(ClusterPlan, CephCopiesNeedServersButNoReads) {
    const Demand demand{.gpus = 96, .rate = 2000, .sample_bytes = 4096};
    const Costs costs = costs_of(Backend::rados);
    const Plan three = planned(demand, {}, costs, Backend::rados);
    EXPECT_EQ(three.servers, 3u);
    EXPECT_EQ(three.devices, 48u);
    EXPECT_NEAR(three.usable_bytes, 16 * 15.36e12, 1);
    EXPECT_NEAR(three.server_cores, 1.92, 1e-9);
    EXPECT_NEAR(resource(three, "server", "cores").available, 3 * 64, 1e-9);
    const Plan one = planned(demand, {.rados_copies = 1}, costs, Backend::rados);
    EXPECT_EQ(one.servers, 1u);
    EXPECT_EQ(one.usable_bytes, three.usable_bytes);
    EXPECT_EQ(one.server_cores, three.server_cores);
    EXPECT_EQ(planned(demand).servers, 1u) << "an engine keeps one copy";
    const Plan large = planned({.gpus = 100'000, .rate = 2000, .sample_bytes = 1 << 20},
                               {.rados_copies = 16}, costs, Backend::rados);
    EXPECT_GT(large.servers, 16u);
    EXPECT_LE(large.resources.front().share(), 0.8 + 1e-6);
}

TEST(ClusterPlan, LookUpsAreCountedSeparately) {
    Costs costs = costs_of();
    costs.requests[Costs::key(Backend::engine, provider, "stat")] = {
        .source = "measured", .dpu_us = 20, .server_us = 10};
    const Plan made =
        planned({.gpus = 10, .rate = 1000, .sample_bytes = 4096}, {.dpu_core_percent = 50}, costs);
    ASSERT_TRUE(made.look_ups);
    EXPECT_NEAR(made.look_ups->dpu_cores, 0.4, 1e-9);
    EXPECT_NEAR(made.look_ups->server_cores, 0.1, 1e-9);
}

TEST(Hardware, FileOverridesSomeValues) {
    Report report;
    const auto hardware = parse_hardware(
        "server:\n  devices: 4\n  device_bandwidth: 7000MB\ndpu: {cores: 8}\n"
        "rados: {copies: 2, osd_memory: 8GiB}\n",
        "h.yaml", report);
    ASSERT_TRUE(hardware) << report.text();
    EXPECT_EQ(hardware->server_devices, 4u);
    EXPECT_EQ(hardware->device_bandwidth, 7'000'000'000u);
    EXPECT_EQ(hardware->dpu_cores, 8u);
    EXPECT_EQ(hardware->rados_copies, 2u);
    EXPECT_EQ(hardware->rados_osd_memory, uint64_t{8} << 30);
    EXPECT_EQ(hardware->server_network_gbits, Hardware{}.server_network_gbits);
}

TEST(Hardware, ProblemNamesLineAndKey) {
    struct Case {
        std::string_view yaml, says;
    };
    for (const auto& [yaml, says] : std::initializer_list<Case>{
             {"dpu:\n  core: 8\n",
              "h.yaml:2: there is no setting \"core\" in \"dpu\"; did you mean"},
             {"dpus: {cores: 8}\n",
              "h.yaml:1: there is no setting \"dpus\"; did you mean \"dpu\"?"},
             {"dpu:\n  cores: 0\n", "h.yaml:2: dpu.cores: "},
             {"dpu:\n  cores: -4\n", "h.yaml:2: dpu.cores: "},
             {"dpu:\n  cores: nan\n", "h.yaml:2: dpu.cores: "},
             {"dpu:\n  cores: 99999999999999999999\n", "h.yaml:2: dpu.cores: "},
             {"server: {device_bandwidth: 0}\n", "h.yaml:1: server.device_bandwidth: "},
             {"rados: {copies: 0}\n", "h.yaml:1: rados.copies: "},
             {"rados: {copies: 17}\n", "h.yaml:1: rados.copies: "},
             {"plan: {utilisation_percent: 101}\n", "h.yaml:1: plan.utilisation_percent: "},
             {"server: 4\n", "h.yaml:1: \"server\" is a group"}}) {
        Report report;
        EXPECT_FALSE(parse_hardware(yaml, "h.yaml", report)) << yaml;
        EXPECT_THAT(report.text(), HasSubstr(says));
    }
}

}  // namespace
}  // namespace ros2s::planning
