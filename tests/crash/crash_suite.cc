// crash_suite: the engine under random crashes, judged by a reference model (src/sim/README.md).
//
//     crash_suite --points 1000 --groups 3          1000 crash points, from seed 1 on
//     crash_suite --seed 4711 --points 1 --groups 3 the trial of one seed, which failed
//     crash_suite --points 300 --remote yes         through client, network and server
#include <fmt/format.h>
#include <malloc.h>
#include <signal.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ros2s/sim/engine/engine_rig.h"
#include "ros2s/sim/remote/remote_rig.h"
#include "ros2s/sim/trial.h"
#include "rules.h"

namespace ros2s::sim {
namespace {

constexpr size_t failures_shown_max = 5;
// So many points must be spread as Distribution::lacks says; fewer replay something.
constexpr uint64_t points_of_campaign = 100;

struct Options {
    uint64_t points = 1000;
    uint64_t seed = 1;
    uint32_t groups = 1;
    IndexKind index = IndexKind::ordered;
    bool remote = false;
    std::string remove_rule;
    bool progress = isatty(STDERR_FILENO) == 1;
};

constexpr const char* usage =
    "usage: crash_suite [--points N] [--seed S] [--groups G] [--index ordered|rocksdb]\n"
    "                   [--remote yes|no] [--remove-rule NAME]\n"
    "Crashes the engine on simulated disks at N points of its device operations, trial by trial\n"
    "from seed S on, and judges what it recovers. With --remote yes the clients reach it over a\n"
    "simulated network that loses connections. --remove-rule switches one rule of the commit\n"
    "protocol off (docs/crash-rules.md names them): then a failure is what should be found.\n";

std::optional<uint64_t> number(const char* text) {
    uint64_t value = 0;
    const char* end = text + std::strlen(text);
    const auto parsed = std::from_chars(text, end, value);
    if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
    return value;
}

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
        } else if (name == "--remote" &&
                   (std::string_view(value) == "yes" || std::string_view(value) == "no")) {
            options.remote = std::string_view(value) == "yes";
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
    return fmt::format("crash_suite --seed {} --points 1 --groups {} --index {}{}{}", seed,
                       options.groups, options.index == IndexKind::ordered ? "ordered" : "rocksdb",
                       options.remote ? " --remote yes" : "",
                       options.remove_rule.empty() ? "" : " --remove-rule " + options.remove_rule);
}

// Where the crashes came. A campaign must have met enough of each kind to mean something: what the
// engine or the workload changes moves these shares, and a suite that no longer looks where things
// break would pass.
class Distribution {
  public:
    void add(const CrashPoint& point) {
        ++points_;
        in_recovery_ += point.in_recovery ? 1 : 0;
        in_growth_ += point.in_growth ? 1 : 0;
        in_container_change_ += point.in_container_change ? 1 : 0;
        power_ += point.kind == CrashKind::power ? 1 : 0;
        two_unflushed_ += point.unflushed_writes >= 2 ? 1 : 0;
        ++at_[point.operation];
        size_t bucket = 0;
        while (bucket + 1 < std::size(buckets) && point.unflushed_writes >= buckets[bucket + 1]) {
            ++bucket;
        }
        ++unflushed_[bucket];
    }
    [[nodiscard]] uint64_t points() const { return points_; }
    // What there is too little of; empty in a campaign that is worth its name.
    [[nodiscard]] std::vector<std::string> lacks() const {
        struct Floor {
            std::string_view what;
            uint64_t found;
            uint64_t percent;
        };
        const Floor floors[] = {
            {"points with two or more unflushed writes", two_unflushed_, 50},
            {"points inside recovery", in_recovery_, 10},
            {"power losses", power_, 50},
            {"process crashes", points_ - power_, 15},
        };
        std::vector<std::string> lacking;
        for (const Floor& floor : floors) {
            if (floor.found * 100 >= floor.percent * points_) continue;
            lacking.push_back(fmt::format("{} {}, of {}; at least {} % should be", floor.found,
                                          floor.what, points_, floor.percent));
        }
        // These are a few in a hundred: of so few points none might be.
        if (points_ >= 10 * points_of_campaign && in_growth_ == 0) {
            lacking.emplace_back("none while a device was added");
        }
        if (points_ >= 10 * points_of_campaign && in_container_change_ == 0) {
            lacking.emplace_back("none while a container was made or destroyed");
        }
        return lacking;
    }
    void print() const {
        const auto share = [&](uint64_t n) {
            return 100.0 * static_cast<double>(n) / static_cast<double>(points_);
        };
        fmt::print(
            "{} crash points: {} power losses, {} process crashes; {} ({:.0f} %) inside "
            "recovery; {} ({:.0f} %) with two or more unflushed writes\n",
            points_, power_, points_ - power_, in_recovery_, share(in_recovery_), two_unflushed_,
            share(two_unflushed_));
        fmt::print("  {} while a device was added, {} while a container was made or destroyed\n",
                   in_growth_, in_container_change_);
        fmt::print("  at a");
        for (const auto& [operation, count] : at_) fmt::print("  {} {}", operation, count);
        fmt::print("\n  unflushed writes");
        for (size_t i = 0; i < std::size(buckets); ++i) {
            const bool last = i + 1 == std::size(buckets);
            const bool one = !last && buckets[i + 1] == buckets[i] + 1;
            fmt::print("  {}{}: {}", buckets[i],
                       one ? "" : (last ? "+" : fmt::format("-{}", buckets[i + 1] - 1)),
                       unflushed_[i]);
        }
        fmt::print("\n");
    }

  private:
    static constexpr size_t buckets[] = {0, 1, 2, 3, 5, 9, 17, 33};
    uint64_t points_ = 0, in_recovery_ = 0, power_ = 0, two_unflushed_ = 0, in_growth_ = 0,
             in_container_change_ = 0;
    std::map<std::string, uint64_t> at_;
    uint64_t unflushed_[std::size(buckets)] = {};
};

// A failed CHECK ends the process: the seed must be known then.
char aborted_at[512];
void say_seed(int) {
    (void)!write(STDERR_FILENO, aborted_at, std::strlen(aborted_at));
    _exit(134);
}

int run(const Options& options) {
    // Buffers of a few hundred KiB come and go: the kernel need not zero them each time.
    mallopt(M_MMAP_THRESHOLD, 256 << 20);
    mallopt(M_TRIM_THRESHOLD, 512 << 20);
    signal(SIGABRT, say_seed);
    EngineRigOptions rig{.groups_in_flight = options.groups, .index = options.index};
    if (!options.remove_rule.empty()) rig.rules.*find_rule(options.remove_rule)->rule = false;
    RemoteTotals network;
    const auto factory = [&](World& world, Random& random) {
        std::unique_ptr<Rig> engine = make_engine_rig(world, random, rig);
        if (!options.remote) return engine;
        return make_remote_rig(world, random, std::move(engine), network);
    };
    Distribution distribution;
    uint64_t transactions = 0, reads = 0, trials = 0, clean = 0, containers = 0, growths = 0;
    std::vector<uint64_t> failed;
    const auto begin = std::chrono::steady_clock::now();
    for (uint64_t seed = options.seed; distribution.points() < options.points; ++seed) {
        const std::string replay = command(options, seed);
        fmt::format_to_n(aborted_at, sizeof aborted_at - 1, "replay: {}\n", replay);
        const TrialReport report = run_trial(seed, factory);
        ++trials;
        for (const CrashPoint& point : report.points) distribution.add(point);
        transactions += report.transactions;
        reads += report.reads;
        clean += report.clean_closes;
        containers += report.containers;
        growths += report.growths;
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
        // A trial may end without a point, where the store cannot even be made.
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
    if (options.remote) {
        fmt::print("  {} connections lost, {} requests sent again, {} stored replies returned\n",
                   network.connections_lost, network.requests_repeated, network.replayed);
    }
    std::vector<std::string> lacking;
    if (options.points >= points_of_campaign && options.remove_rule.empty()) {
        lacking = distribution.lacks();
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
