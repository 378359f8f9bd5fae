// crash_offload: hosts, DPUs and the storage server under crashes and a network in trouble, judged
// by a model (src/sim/offload/README.md).
//
//     crash_offload --points 1000 --dpus 2           1000 crashes of the engine, from seed 1 on
//     crash_offload --seed 4711 --points 1 --dpus 2  the trial of one seed, which failed
#include <fmt/format.h>

#include <string>
#include <vector>

#include "campaign.h"
#include "engine_options.h"
#include "ros2s/sim/engine/engine_rig.h"
#include "ros2s/sim/offload/offload_trial.h"

namespace ros2s::sim {
namespace {

struct Options {
    EngineOptions engine{.rig = {.pin_grace = offload_grace}};
    size_t dpus = 1;
    bool keeps_replies = true;
};

constexpr const char* usage =
    "usage: crash_offload [--points N] [--seed S] [--dpus 1|2] [--groups G] [--cores N]\n"
    "                     [--index ordered|rocksdb] [--errors yes|no] [--replies keep|forget]\n"
    "                     [--remove-rule NAME]\n"
    "Hosts work through DPUs on a storage server, whose engine crashes at N points of its device\n"
    "operations, trial by trial from seed S on, while DPUs are killed and the network is in "
    "trouble.\n"
    "--replies forget (the store keeps no update names) and --remove-rule (one rule of the commit\n"
    "protocol is off, docs/crash-rules.md) break it: then a failure is what should be found.\n";

// All trials together.
struct Sum {
    uint64_t operations = 0, storage_strikes = 0, dpu_kills = 0, clock_steps = 0, device_errors = 0,
             repeated = 0, replayed = 0;
    SharedWork::Totals shared;
    NetworkTrouble::Totals trouble;

    void add(const OffloadReport& report) {
        operations += report.operations;
        storage_strikes += report.storage_strikes;
        dpu_kills += report.dpu_kills;
        clock_steps += report.clock_steps;
        device_errors += report.device_errors;
        repeated += report.requests_repeated;
        replayed += report.replayed;
        shared += report.shared;
        trouble += report.trouble;
    }
    // Names the kinds that were too rare for this number of crashes.
    [[nodiscard]] std::vector<std::string> lacks(uint64_t points) const {
        // A third to a half of the values in past campaigns.
        const Floor floors[] = {
            {"DPUs killed", dpu_kills, 20},
            {"clock steps", clock_steps, 20},
            {"faults of the network", trouble.all(), 50},
            {"strikes between commit and answer", storage_strikes, 5},
            {"requests sent again", repeated, 50},
            {"stored replies returned", replayed, 50},
            {"appends", shared.appends, 50},
            {"exclusive creations", shared.creations, 25},
            {"renames", shared.renames, 25},
        };
        return too_rare(floors, points);
    }
    void print() const {
        fmt::print(
            "  {} DPUs killed, {} clock steps, {} strikes between commit and answer, {} ends by "
            "device errors; network: {} connections lost, {} cut in a transfer, {} processes "
            "stalled, {} times lossy, {} times slow\n",
            dpu_kills, clock_steps, storage_strikes, device_errors, trouble.lost, trouble.cut,
            trouble.stalled, trouble.lossy, trouble.slow);
        fmt::print(
            "  {} operations in directories of one client; shared: {} appends, {} exclusive "
            "creations, {} renames, {} writes, {} reads judged\n",
            operations, shared.appends, shared.creations, shared.renames, shared.writes,
            shared.reads);
        fmt::print("  {} requests sent again by hosts, {} stored replies returned by the store\n",
                   repeated, replayed);
    }
};

struct Trial {
    OffloadReport report;
    uint64_t trace = 0;
};

Trial run_one(const Options& options, uint64_t seed) {
    TraceHash trace;
    EngineRigOptions rig = options.engine.rig;
    // Half of the pools are so small that they reuse blocks.
    rig.data_bytes = seed % 2 == 0 ? 16 << 20 : 1 << 20;
    rig.trace = &trace;
    const auto factory = [&](World& world, Random& random) {
        return make_engine_rig(world, random, rig);
    };
    Trial trial{.report = run_offload_trial(seed, factory,
                                            {.dpus = options.dpus,
                                             .cores = rig.cores,
                                             .leases = seed % 4 == 3,
                                             .keeps_replies = options.keeps_replies,
                                             .trace = &trace})};
    trial.trace = trace.value();
    return trial;
}

int run(int argc, char** argv) {
    keep_memory();
    Options options;
    Campaign campaign("crash_offload", usage,
                      options.engine.behind({numeric("dpus", options.dpus, 1, 2),
                                             one_of("replies", options.keeps_replies,
                                                    {{"keep", true}, {"forget", false}})}));
    if (!campaign.read(argc, argv)) return 2;
    options.engine.remove_rule();
    Distribution distribution(Distribution::Changes::none);
    Sum sum;
    uint64_t trace = 0;
    campaign.run([&] { return distribution.points(); },
                 [&](uint64_t seed) {
                     Trial trial = run_one(options, seed);
                     trace = trial.trace;
                     for (const CrashPoint& point : trial.report.points) distribution.add(point);
                     sum.add(trial.report);
                     return std::move(trial.report.problems);
                 });
    if (distribution.points() > 0) distribution.print();
    sum.print();
    const EngineRigOptions& rig = options.engine.rig;
    fmt::print("  DPUs {}, groups in flight {}; {}; trace of the last {:016x}\n", options.dpus,
               rig.groups_in_flight, campaign.trials(), trace);
    std::vector<std::string> lacking;
    if (campaign.points() >= points_of_campaign && options.keeps_replies &&
        options.engine.missing == nullptr) {
        lacking = distribution.lacks();
        for (std::string& text : sum.lacks(campaign.points())) lacking.push_back(std::move(text));
        if (rig.device_errors && sum.device_errors * 20 < campaign.points()) {
            lacking.emplace_back("device errors that ended the server");
        }
    }
    return campaign.finish(lacking);
}

}  // namespace
}  // namespace ros2s::sim

int main(int argc, char** argv) { return ros2s::sim::run(argc, argv); }
