// crash_offload: hosts, DPUs and the storage server under crashes and a network in trouble, judged
// by a model (src/sim/offload/README.md).
//
//     crash_offload --points 1000 --dpus 2           1000 crashes of the engine, from seed 1 on
//     crash_offload --seed 4711 --points 1 --dpus 2  the trial of one seed, which failed
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "campaign.h"
#include "ros2s/sim/engine/engine_rig.h"
#include "ros2s/sim/offload/offload_trial.h"
#include "rules.h"

namespace ros2s::sim {
namespace {

constexpr size_t failures_shown_max = 5;
constexpr size_t failures_max = 20;

struct Options {
    uint64_t points = 1000;
    uint64_t seed = 1;
    size_t dpus = 1;
    uint32_t groups = 1;
    uint32_t cores = 1;
    bool errors = false;
    IndexKind index = IndexKind::ordered;
    bool keeps_replies = true;
    std::string remove_rule;
    bool progress = isatty(STDERR_FILENO) == 1;
    [[nodiscard]] bool is_broken() const { return !keeps_replies || !remove_rule.empty(); }
};

constexpr const char* usage =
    "usage: crash_offload [--points N] [--seed S] [--dpus 1|2] [--groups G] [--cores N]\n"
    "                     [--index ordered|rocksdb] [--errors yes|no] [--replies keep|forget]\n"
    "                     [--remove-rule NAME]\n"
    "Hosts work through DPUs on a storage server, whose engine crashes at N points of its device\n"
    "operations, trial by trial from seed S on, while DPUs are killed and the network is in "
    "trouble.\n"
    "--replies forget (the store keeps no update names) and --remove-rule (one rule of the "
    "commit\n"
    "protocol is off, docs/crash-rules.md) break it: then a failure is what should be found.\n";

std::optional<Options> parse(int argc, char** argv) {
    Options options;
    for (int i = 1; i < argc; i += 2) {
        const std::string_view name = argv[i];
        const char* value = i + 1 < argc ? argv[i + 1] : "";
        const std::string_view word = value;
        const std::optional<uint64_t> n = number(value);
        if (name == "--points" && n) {
            options.points = *n;
        } else if (name == "--seed" && n) {
            options.seed = *n;
        } else if (name == "--dpus" && n && *n > 0 && *n <= 2) {
            options.dpus = *n;
        } else if (name == "--groups" && n && *n > 0 && *n <= 16) {
            options.groups = static_cast<uint32_t>(*n);
        } else if (name == "--cores" && n && *n > 0 && *n <= 16) {
            options.cores = static_cast<uint32_t>(*n);
        } else if (name == "--errors" && (word == "yes" || word == "no")) {
            options.errors = word == "yes";
        } else if (name == "--index" && (word == "ordered" || word == "rocksdb")) {
            options.index = word == "ordered" ? IndexKind::ordered : IndexKind::rocksdb;
        } else if (name == "--replies" && (word == "keep" || word == "forget")) {
            options.keeps_replies = word == "keep";
        } else if (name == "--remove-rule" && find_rule(value) != nullptr) {
            options.remove_rule = value;
        } else {
            fmt::print(stderr, "crash_offload: {} {} is not understood\n{}", name, value, usage);
            return std::nullopt;
        }
    }
    return options;
}

std::string command(const Options& options, uint64_t seed) {
    return fmt::format(
        "crash_offload --seed {} --points 1 --dpus {} --groups {} --index {}{}{}{}{}", seed,
        options.dpus, options.groups, options.index == IndexKind::ordered ? "ordered" : "rocksdb",
        options.cores > 1 ? fmt::format(" --cores {}", options.cores) : "",
        options.errors ? " --errors yes" : "", options.keeps_replies ? "" : " --replies forget",
        options.remove_rule.empty() ? "" : " --remove-rule " + options.remove_rule);
}

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
        struct Floor {
            std::string_view what;
            uint64_t found;
            uint64_t percent;  // of the points
        };
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
        std::vector<std::string> lacking;
        for (const Floor& floor : floors) {
            if (floor.found * 100 >= floor.percent * points) continue;
            lacking.push_back(fmt::format("{} {}", floor.found, floor.what));
        }
        return lacking;
    }
    void print() const {
        fmt::print(
            "  {} DPUs killed, {} clock steps, {} strikes between commit and answer, {} ends by "
            "device errors; network: {} "
            "connections lost, "
            "{} cut in a transfer, {} processes stalled, {} times lossy, {} times slow\n",
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
    // Half of the pools are so small that they reuse blocks.
    const uint64_t data_bytes = seed % 2 == 0 ? 16 << 20 : 1 << 20;
    EngineRigOptions rig{.groups_in_flight = options.groups,
                         .index = options.index,
                         .data_bytes = data_bytes,
                         .cores = options.cores,
                         .device_errors = options.errors,
                         .pin_grace = offload_grace,
                         .trace = &trace};
    if (!options.remove_rule.empty()) rig.rules.*find_rule(options.remove_rule)->rule = false;
    const auto factory = [&](World& world, Random& random) {
        return make_engine_rig(world, random, rig);
    };
    Trial trial{.report = run_offload_trial(seed, factory,
                                            {.dpus = options.dpus,
                                             .cores = options.cores,
                                             .leases = seed % 4 == 3,
                                             .keeps_replies = options.keeps_replies,
                                             .trace = &trace})};
    trial.trace = trace.value();
    return trial;
}

int run(const Options& options) {
    keep_memory();
    Distribution distribution(Distribution::Changes::none);
    Sum sum;
    uint64_t trials = 0, failed = 0, trace = 0;
    const auto begin = std::chrono::steady_clock::now();
    for (uint64_t seed = options.seed; distribution.points() < options.points; ++seed) {
        const std::string replay = command(options, seed);
        say_on_abort(replay);
        const Trial trial = run_one(options, seed);
        ++trials;
        trace = trial.trace;
        for (const CrashPoint& point : trial.report.points) distribution.add(point);
        sum.add(trial.report);
        if (!trial.report.problems.empty() && ++failed <= failures_shown_max) {
            fmt::print("seed {} FAILED; replay: {}\n", seed, replay);
            for (const std::string& problem : trial.report.problems) fmt::print("  {}\n", problem);
        }
        if (options.progress) {
            fmt::print(stderr, "\r{} of {} crash points, {} failed trials", distribution.points(),
                       options.points, failed);
        }
        if (failed > failures_max) break;
    }
    if (options.progress) fmt::print(stderr, "\n");
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (distribution.points() > 0) distribution.print();
    sum.print();
    fmt::print(
        "  {} trials from seed {} on, DPUs {}, groups in flight {}, {:.1f} s; trace of the "
        "last {:016x}\n",
        trials, options.seed, options.dpus, options.groups, seconds, trace);
    std::vector<std::string> lacking;
    if (options.points >= points_of_campaign && !options.is_broken()) {
        lacking = distribution.lacks();
        for (std::string& text : sum.lacks(options.points)) lacking.push_back(std::move(text));
        if (options.errors && sum.device_errors * 20 < options.points) {
            lacking.emplace_back("device errors that ended the server");
        }
    }
    for (const std::string& what : lacking) fmt::print("FAILED: too little happened: {}\n", what);
    fmt::print("{} passed, {} failed\n", trials - failed, failed + lacking.size());
    return failed == 0 && lacking.empty() ? 0 : 1;
}

}  // namespace
}  // namespace ros2s::sim

int main(int argc, char** argv) {
    const auto options = ros2s::sim::parse(argc, argv);
    return options ? ros2s::sim::run(*options) : 2;
}
