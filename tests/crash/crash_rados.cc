// crash_rados: clients of a file system on RADOS that die in the middle of their requests, judged
// by a model (src/sim/rados/README.md).
//
//     crash_rados --points 2000             2000 deaths, from seed 1 on
//     crash_rados --seed 4711 --points 1    the trial of one seed, which failed
#include <fmt/format.h>

#include <optional>
#include <string>
#include <vector>

#include "campaign.h"
#include "ros2s/sim/rados/rados_trial.h"

namespace ros2s::sim {
namespace {

constexpr const char* usage =
    "usage: crash_rados [--points N] [--seed S] [--remove-rule NAME]\n"
    "Clients work in a file system on a simulated RADOS cluster. N of them die at one of their\n"
    "requests, trial by trial from seed S on; others then find what was acknowledged.\n"
    "--remove-rule breaks the protocol (docs/formats/rados.md), and a failure is what should be\n"
    "found: data-first, prepare-first, commit-first, expect-head, doubt-refusal.\n";

// All trials together.
struct Sum {
    RadosReport all;
    void add(const RadosReport& report) {
        all.deaths += report.deaths;
        all.misled += report.misled;
        all.in_mount += report.in_mount;
        all.after_a_day += report.after_a_day;
        all.operations += report.operations;
        all.repeated += report.repeated;
        all.requests += report.requests;
        all.clients_dropped += report.clients_dropped;
    }
    // Names the kinds that were too rare. The bounds are a third to a half of the values in past
    // campaigns.
    [[nodiscard]] std::vector<std::string> lacks() const {
        const Floor floors[] = {
            {"clients that were misled", all.misled, 15},
            {"deaths during a mount", all.in_mount, 4},
            {"applications that came back after a day", all.after_a_day, 10},
            {"acknowledged operations", all.operations, 1000},
            {"operations repeated by another client", all.repeated, 40},
            {"clients whose replies were removed", all.clients_dropped, 50},
        };
        return too_rare(floors, all.deaths);
    }
};

int run(int argc, char** argv) {
    std::optional<RadosRule> missing;
    Campaign campaign("crash_rados", usage,
                      {one_of("remove-rule", missing, {rados_rules.begin(), rados_rules.end()})});
    if (!campaign.read(argc, argv)) return 2;
    Sum sum;
    campaign.run([&] { return sum.all.deaths; },
                 [&](uint64_t seed) {
                     RadosReport report = run_rados_trial(seed, {.missing = missing});
                     sum.add(report);
                     return std::move(report.problems);
                 });
    fmt::print(
        "  {} deaths, {} of them during a mount, {} of clients that were misled; {} requests of "
        "these clients; {} operations, {} repeated by another client; {} came back after a day; "
        "the replies to {} clients were removed\n  {}\n",
        sum.all.deaths, sum.all.in_mount, sum.all.misled, sum.all.requests, sum.all.operations,
        sum.all.repeated, sum.all.after_a_day, sum.all.clients_dropped, campaign.trials());
    std::vector<std::string> lacking;
    if (campaign.points() >= points_of_campaign && !missing) lacking = sum.lacks();
    return campaign.finish(lacking);
}

}  // namespace
}  // namespace ros2s::sim

int main(int argc, char** argv) { return ros2s::sim::run(argc, argv); }
