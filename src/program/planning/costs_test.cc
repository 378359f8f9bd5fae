#include "ros2s/planning/costs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ros2s::planning {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string refused(std::string_view json) {
    Report report;
    EXPECT_FALSE(parse_costs(json, "costs.json", report)) << json;
    return report.text();
}

TEST(Costs, MeasuredCostsAreRead) {
    Report report;
    const auto costs = parse_costs(R"({
 "version": 1,
 "measured": {"date": "2026-11-24", "commit": "abc", "machine": "2 cores", "load": "0.5", "turns": 3},
 "requests": {
  "offload/engine/ucx+tcp/read-4096": {"source": "measured", "dpu_us": 6.7, "network_bytes": 4200},
  "offload/rados/tcp/read-4096": {"source": "https://example.org/paper", "server_us": 1e2},
  "direct/engine/shm/create": {"source": "measured", "server_us": 0}
 },
 "spreads": {"offload/engine/ucx+tcp/read-4096": {"dpu_us": "6.1 to 7"}},
 "memory": {"index_bytes_per_gib_in_order": 3000000}
})",
                                   "costs.json", report);
    ASSERT_TRUE(costs) << report.text();
    EXPECT_EQ(costs->commit, "abc");
    const Cost& read = costs->requests.at(Costs::key(Backend::engine, "ucx+tcp", "read-4096"));
    EXPECT_EQ(read.dpu_us, 6.7);
    EXPECT_EQ(read.network_bytes, 4200);
    EXPECT_FALSE(read.server_us) << "it was not measured";
    EXPECT_EQ(costs->memory.at("index_bytes_per_gib_in_order"), 3e6);
    EXPECT_THAT(costs->providers(Backend::engine), ElementsAre("ucx+tcp"));
    EXPECT_THAT(costs->providers(Backend::rados), ElementsAre("tcp"));
    EXPECT_THAT(costs->providers(Backend::daos), ElementsAre());
    EXPECT_FALSE(costs->measured_under_load());
    EXPECT_EQ(default_provider(Backend::engine), "ucx+tcp");
    EXPECT_EQ(default_provider(Backend::rados), "tcp");
}

TEST(Costs, LoadOfTheMachineIsDetected) {
    const std::string two = "2 cores of a processor";
    for (const auto& [machine, load, busy] :
         std::initializer_list<std::tuple<std::string, std::string, bool>>{
             {two, "17.79 before, 25.65 after", true},
             {two, "2.01 before, 0.1 after", true},
             {two, "2 before, 9.5 after", false},  // the measurement itself makes load
             {two, "0.3 before, 9.5 after", false},
             {"64 cores of a processor", "17.79 before, 25.65 after", false},
             {two, "", false},
             {two, "much", false},
             {"", "17.79 before, 25.65 after", false},
             {"two cores", "17.79 before, 25.65 after", false}}) {
        const Costs costs{.machine = machine, .load = load};
        EXPECT_EQ(costs.measured_under_load(), busy) << machine << "; " << load;
    }
}

TEST(Costs, ProblemIsReportedInASentence) {
    const auto with = [](std::string_view request) {
        return std::string(R"({"version": 1, "requests": {)") + std::string(request) + "}}";
    };
    EXPECT_THAT(refused("{}"), HasSubstr("costs.json: the setting version is missing"));
    EXPECT_THAT(refused(R"({"version": 2})"), HasSubstr("costs.json:1: version: "));
    EXPECT_THAT(
        refused("{\"version\": 1,\n\"request\": {}}"),
        HasSubstr("costs.json:2: there is no setting \"request\"; did you mean \"requests\"?"));
    EXPECT_THAT(refused(with("\n\"offload/engine/shm/read-4096\": {\"dpu_u\": 1}")),
                HasSubstr("costs.json:2: there is no setting \"dpu_u\""));
    for (const char* key : {"read-4096", "offload/shm/read-4096", "offload/ext4/shm/read-4096",
                            "embedded/engine/shm/read-4096", "offload/engine//read-4096"}) {
        EXPECT_THAT(refused(with('"' + std::string(key) + "\": {\"source\": \"measured\"}")),
                    HasSubstr('"' + std::string(key) + "\" names no request"));
    }
    EXPECT_THAT(refused(with(R"("offload/engine/shm/stat": {"dpu_us": 1})")),
                HasSubstr("offload/engine/shm/stat: it has no source"));
    for (const char* number :
         {"-1", "nan", "inf", "1e400", "1e16", "1,5", "\"\"", "0x10", "6 us"}) {
        EXPECT_THAT(refused(with("\"offload/engine/shm/stat\": {\"source\": \"m\", \"dpu_us\": '" +
                                 std::string(number) + "'}")),
                    HasSubstr("offload/engine/shm/stat.dpu_us: "))
            << number;
    }
    EXPECT_THAT(refused(R"({"version": 1, "memory": {"index_bytes_per_gib_in_order": "-3"}})"),
                HasSubstr("memory.index_bytes_per_gib_in_order: \"-3\" is not a cost"));
    EXPECT_THAT(refused("{\"version\": 1,"), HasSubstr("not YAML"));
    EXPECT_THAT(refused(std::string(1 << 21, ' ')), HasSubstr("larger than 1 MiB"));
}

}  // namespace
}  // namespace ros2s::planning
