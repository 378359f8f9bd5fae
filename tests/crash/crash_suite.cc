// crash_suite: the engine under random crashes, judged by a reference model
// (src/sim/README.md).
//
//     crash_suite --points 1000 --groups 3          1000 crash points, from seed 1 on
//     crash_suite --seed 4711 --points 1 --groups 3 the trial of one seed, which failed
//     crash_suite --points 300 --remote yes         through client, network and server
#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "campaign.h"
#include "engine_options.h"
#include "ros2s/sim/engine/engine_rig.h"
#include "ros2s/sim/remote/remote_rig.h"
#include "ros2s/sim/trial.h"

namespace ros2s::sim {
namespace {

constexpr const char* usage =
    "usage: crash_suite [--points N] [--seed S] [--groups G] [--index ordered|rocksdb]\n"
    "                   [--remote yes|no] [--memory yes|no] [--errors yes|no] [--cleaner yes|no]\n"
    "                   [--deferred yes|no] [--cores N] [--remove-rule NAME]\n"
    "Crashes the engine on simulated disks at N points of its device operations, trial by trial\n"
    "from seed S on, and judges what it recovers. With --remote yes the clients reach it over a\n"
    "simulated network that loses connections; with --memory yes the first disk is persistent\n"
    "memory, with --errors yes devices report errors and are slow, with --cleaner yes blocks are\n"
    "moved between the updates, with --deferred yes most updates need not be durable, with --cores "
    "N the store is spread over N cores. --remove-rule "
    "switches one rule of the commit protocol off\n"
    "(docs/crash-rules.md names them): then a failure is what should be found.\n";

struct Sum {
    uint64_t transactions = 0, reads = 0, clean = 0, containers = 0, growths = 0, errors = 0,
             clock_steps = 0, expired = 0;
    void add(const TrialReport& report) {
        transactions += report.transactions;
        reads += report.reads;
        clean += report.clean_closes;
        containers += report.containers;
        growths += report.growths;
        errors += report.device_errors;
        clock_steps += report.clock_steps;
        expired += report.expired;
    }
};

int run(int argc, char** argv) {
    keep_memory();
    EngineTotals met;
    EngineOptions options{.rig = {.totals = &met}};
    EngineRigOptions& rig = options.rig;
    bool remote = false, deferred = false;
    Campaign campaign(
        "crash_suite", usage,
        options.behind({yes_or_no("remote", remote), yes_or_no("memory", rig.memory),
                        yes_or_no("cleaner", rig.cleaner), yes_or_no("deferred", deferred)}));
    if (!campaign.read(argc, argv)) return 2;
    options.remove_rule();
    rig.scarcity = !remote;
    RemoteTotals network;
    const auto factory = [&](World& world, Random& random) {
        std::unique_ptr<Rig> engine = make_engine_rig(world, random, rig);
        if (!remote) return engine;
        return make_remote_rig(world, random, std::move(engine), network);
    };
    Distribution distribution(Distribution::Changes::growth_and_containers);
    Sum sum;
    campaign.run([&] { return distribution.points(); },
                 [&](uint64_t seed) {
                     TrialReport report =
                         run_trial(seed, factory, {.cores = rig.cores, .deferred = deferred});
                     for (const CrashPoint& point : report.points) distribution.add(point);
                     sum.add(report);
                     return std::move(report.problems);
                 });
    if (distribution.points() > 0) distribution.print();
    fmt::print(
        "  {} groups in flight: {} transactions, {} reads judged, {} containers, {} devices "
        "added, {} clean closes\n  {}\n",
        rig.groups_in_flight, sum.transactions, sum.reads, sum.containers, sum.growths, sum.clean,
        campaign.trials());
    fmt::print(
        "  {} clock steps, {} replies not kept any more, {} old copies of disks refused, the "
        "index's disk full {} times\n",
        sum.clock_steps, sum.expired, met.copies_refused, met.indexes_full);
    if (rig.device_errors) {
        fmt::print("  {} openings in which a device reported an error, {} crashes after one\n",
                   sum.errors, distribution.after_error());
    }
    if (rig.cleaner) fmt::print("  {} blocks moved by cleaners\n", met.moved_bytes / 4096);
    if (remote) {
        fmt::print("  {} connections lost, {} requests sent again, {} stored replies returned\n",
                   network.connections_lost, network.requests_repeated, network.replayed);
    }
    const uint64_t points = campaign.points();
    std::vector<std::string> lacking;
    if (points >= points_of_campaign && options.missing == nullptr) {
        lacking = distribution.lacks();
        // These are a few percent, like added devices.
        const bool is_long = points >= 10 * points_of_campaign && !remote;
        if (is_long && (sum.clock_steps == 0 || sum.expired == 0)) {
            lacking.emplace_back("no clock was set, or no reply was gone");
        }
        if (is_long && (met.copies_refused == 0 || met.indexes_full == 0)) {
            lacking.emplace_back("no old copy was refused, or no index was full");
        }
        if (rig.device_errors && distribution.after_error() * 10 < points) {
            lacking.emplace_back("fewer crashes after a device's error than one in ten");
        }
        if (rig.cleaner && met.moved_bytes / 4096 < points / 4) {
            lacking.emplace_back("fewer blocks moved than a quarter of the points");
        }
        if (remote && network.requests_repeated < points) {
            lacking.emplace_back("fewer requests sent again than points");
        }
        if (remote && network.replayed < points / 2) {
            lacking.emplace_back("fewer stored replies returned than half the points");
        }
    }
    return campaign.finish(lacking);
}

}  // namespace
}  // namespace ros2s::sim

int main(int argc, char** argv) { return ros2s::sim::run(argc, argv); }
