// crash_suite: the engine under random crashes, judged by a reference model
// (src/sim/README.md).
//
//     crash_suite --points 1000 --groups 3          1000 crash points, from seed 1 on
//     crash_suite --seed 4711 --points 1 --groups 3 the trial of one seed, which failed
//     crash_suite --points 300 --remote yes         through client, network and server
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "campaign.h"
#include "ros2s/sim/engine/engine_rig.h"
#include "ros2s/sim/remote/remote_rig.h"
#include "ros2s/sim/trial.h"
#include "rules.h"

namespace ros2s::sim {
namespace {

constexpr size_t failures_shown_max = 5;

struct Options {
    uint64_t points = 1000;
    uint64_t seed = 1;
    uint32_t groups = 1;
    IndexKind index = IndexKind::ordered;
    bool remote = false;
    bool memory = false;
    bool errors = false;
    bool cleaner = false;
    bool deferred = false;
    uint32_t cores = 1;
    std::string remove_rule;
    bool progress = isatty(STDERR_FILENO) == 1;
};

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

std::optional<Options> parse(int argc, char** argv) {
    Options options;
    for (int i = 1; i < argc; i += 2) {
        const std::string_view name = argv[i];
        const char* value = i + 1 < argc ? argv[i + 1] : "";
        const std::optional<uint64_t> n = number(value);
        if (name == "--points" && n) {
            options.points = *n;
        } else if (name == "--seed" && n) {
            options.seed = *n;
        } else if (name == "--groups" && n && *n > 0 && *n <= 16) {
            options.groups = static_cast<uint32_t>(*n);
        } else if (name == "--index" &&
                   (std::string_view(value) == "ordered" || std::string_view(value) == "rocksdb")) {
            options.index =
                std::string_view(value) == "ordered" ? IndexKind::ordered : IndexKind::rocksdb;
        } else if (name == "--cores" && n && *n > 0 && *n <= 16) {
            options.cores = static_cast<uint32_t>(*n);
        } else if ((name == "--remote" || name == "--memory" || name == "--errors" ||
                    name == "--cleaner" || name == "--deferred") &&
                   (std::string_view(value) == "yes" || std::string_view(value) == "no")) {
            bool& option = name == "--remote"     ? options.remote
                           : name == "--memory"   ? options.memory
                           : name == "--errors"   ? options.errors
                           : name == "--deferred" ? options.deferred
                                                  : options.cleaner;
            option = value[0] == 'y';
        } else if (name == "--remove-rule" && find_rule(value) != nullptr) {
            options.remove_rule = value;
        } else {
            fmt::print(stderr, "crash_suite: {} {} is not understood\n{}", name, value, usage);
            return std::nullopt;
        }
    }
    return options;
}

std::string command(const Options& options, uint64_t seed) {
    return fmt::format(
        "crash_suite --seed {} --points 1 --groups {} --index {}{}{}{}{}{}{}{}", seed,
        options.groups, options.index == IndexKind::ordered ? "ordered" : "rocksdb",
        options.remote ? " --remote yes" : "", options.memory ? " --memory yes" : "",
        options.errors ? " --errors yes" : "", options.cleaner ? " --cleaner yes" : "",
        options.deferred ? " --deferred yes" : "",
        options.cores > 1 ? fmt::format(" --cores {}", options.cores) : "",
        options.remove_rule.empty() ? "" : " --remove-rule " + options.remove_rule);
}

int run(const Options& options) {
    keep_memory();
    EngineTotals met;
    EngineRigOptions rig{.groups_in_flight = options.groups,
                         .index = options.index,
                         .memory = options.memory,
                         .cores = options.cores,
                         .device_errors = options.errors,
                         .scarcity = !options.remote,
                         .cleaner = options.cleaner,
                         .totals = &met};
    if (!options.remove_rule.empty()) rig.rules.*find_rule(options.remove_rule)->rule = false;
    RemoteTotals network;
    const auto factory = [&](World& world, Random& random) {
        std::unique_ptr<Rig> engine = make_engine_rig(world, random, rig);
        if (!options.remote) return engine;
        return make_remote_rig(world, random, std::move(engine), network);
    };
    Distribution distribution(Distribution::Changes::growth_and_containers);
    uint64_t transactions = 0, reads = 0, trials = 0, clean = 0, containers = 0, growths = 0,
             errors = 0, clock_steps = 0, expired = 0;
    std::vector<uint64_t> failed;
    const auto begin = std::chrono::steady_clock::now();
    for (uint64_t seed = options.seed; distribution.points() < options.points; ++seed) {
        const std::string replay = command(options, seed);
        say_on_abort(replay);
        const TrialReport report =
            run_trial(seed, factory, {.cores = options.cores, .deferred = options.deferred});
        ++trials;
        for (const CrashPoint& point : report.points) distribution.add(point);
        transactions += report.transactions;
        reads += report.reads;
        clean += report.clean_closes;
        containers += report.containers;
        growths += report.growths;
        errors += report.device_errors;
        clock_steps += report.clock_steps;
        expired += report.expired;
        if (!report.problems.empty()) {
            failed.push_back(seed);
            if (failed.size() <= failures_shown_max) {
                fmt::print("seed {} FAILED; replay: {}\n", seed, replay);
                for (const std::string& problem : report.problems) fmt::print("  {}\n", problem);
            }
        }
        if (options.progress) {
            fmt::print(stderr, "\r{} of {} crash points, {} failed trials", distribution.points(),
                       options.points, failed.size());
        }
        // A trial may end without a crash point if the store cannot be created.
        if (failed.size() > 100) break;
    }
    if (options.progress) fmt::print(stderr, "\n");
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (distribution.points() > 0) distribution.print();
    fmt::print(
        "  {} trials from seed {} on, {} groups in flight: {} transactions, {} reads judged, "
        "{} containers, {} devices added, {} clean closes, {:.1f} s\n",
        trials, options.seed, options.groups, transactions, reads, containers, growths, clean,
        seconds);
    fmt::print(
        "  {} clock steps, {} replies not kept any more, {} old copies of disks refused, the "
        "index's disk full {} times\n",
        clock_steps, expired, met.copies_refused, met.indexes_full);
    if (options.errors) {
        fmt::print("  {} openings in which a device reported an error, {} crashes after one\n",
                   errors, distribution.after_error());
    }
    if (options.cleaner) fmt::print("  {} blocks moved by cleaners\n", met.moved_bytes / 4096);
    if (options.remote) {
        fmt::print("  {} connections lost, {} requests sent again, {} stored replies returned\n",
                   network.connections_lost, network.requests_repeated, network.replayed);
    }
    std::vector<std::string> lacking;
    if (options.points >= points_of_campaign && options.remove_rule.empty()) {
        lacking = distribution.lacks();
        // These are a few percent, like added devices.
        const bool is_long = options.points >= 10 * points_of_campaign && !options.remote;
        if (is_long && (clock_steps == 0 || expired == 0)) {
            lacking.emplace_back("no clock was set, or no reply was gone");
        }
        if (is_long && (met.copies_refused == 0 || met.indexes_full == 0)) {
            lacking.emplace_back("no old copy was refused, or no index was full");
        }
        if (options.errors && distribution.after_error() * 10 < options.points) {
            lacking.emplace_back("fewer crashes after a device's error than one in ten");
        }
        if (options.cleaner && met.moved_bytes / 4096 < options.points / 4) {
            lacking.emplace_back("fewer blocks moved than a quarter of the points");
        }
        if (options.remote && network.requests_repeated < options.points) {
            lacking.emplace_back("fewer requests sent again than points");
        }
        if (options.remote && network.replayed < options.points / 2) {
            lacking.emplace_back("fewer stored replies returned than half the points");
        }
    }
    for (const std::string& what : lacking) fmt::print("FAILED: too few crashes: {}\n", what);
    fmt::print("{} passed, {} failed\n", trials - failed.size(), failed.size() + lacking.size());
    return failed.empty() && lacking.empty() ? 0 : 1;
}

}  // namespace
}  // namespace ros2s::sim

int main(int argc, char** argv) {
    const auto options = ros2s::sim::parse(argc, argv);
    return options ? ros2s::sim::run(*options) : 2;
}
