// crash_rados: clients of a file system on RADOS that die in the middle of their requests, judged
// by a model (src/sim/rados/README.md).
//
//     crash_rados --points 2000             2000 deaths, from seed 1 on
//     crash_rados --seed 4711 --points 1    the trial of one seed, which failed
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "campaign.h"
#include "ros2s/sim/rados/rados_trial.h"

namespace ros2s::sim {
namespace {

constexpr size_t failures_shown_max = 5;
constexpr size_t failures_max = 20;

struct Options {
    uint64_t points = 1000;
    uint64_t seed = 1;
    std::string remove_rule;
    bool progress = isatty(STDERR_FILENO) == 1;
};

constexpr const char* usage =
    "usage: crash_rados [--points N] [--seed S] [--remove-rule NAME]\n"
    "Clients work in a file system on a simulated RADOS cluster. N of them die at one of their\n"
    "requests, trial by trial from seed S on; others then find what was acknowledged.\n"
    "--remove-rule breaks the protocol (docs/formats/rados.md), and a failure is what should be\n"
    "found: data-first, prepare-first, commit-first, expect-head, doubt-refusal.\n";

std::optional<RadosRule> find_rule(std::string_view name) {
    const auto rule =
        std::ranges::find(rados_rules, name, [](const auto& each) { return each.first; });
    return rule == rados_rules.end() ? std::nullopt : std::optional(rule->second);
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
        } else if (name == "--remove-rule" && find_rule(value)) {
            options.remove_rule = value;
        } else {
            fmt::print(stderr, "crash_rados: {} {} is not understood\n{}", name, value, usage);
            return std::nullopt;
        }
    }
    return options;
}

std::string command(const Options& options, uint64_t seed) {
    return fmt::format("crash_rados --seed {} --points 1{}", seed,
                       options.remove_rule.empty() ? "" : " --remove-rule " + options.remove_rule);
}

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
        struct Floor {
            std::string_view what;
            uint64_t found;
            uint64_t percent;  // of the deaths
        };
        const Floor floors[] = {
            {"clients that were misled", all.misled, 15},
            {"deaths during a mount", all.in_mount, 4},
            {"applications that came back after a day", all.after_a_day, 10},
            {"acknowledged operations", all.operations, 1000},
            {"operations repeated by another client", all.repeated, 40},
            {"clients whose replies were removed", all.clients_dropped, 50},
        };
        std::vector<std::string> lacking;
        for (const Floor& floor : floors) {
            if (floor.found * 100 >= floor.percent * all.deaths) continue;
            lacking.push_back(fmt::format("{} {}", floor.found, floor.what));
        }
        return lacking;
    }
};

int run(const Options& options) {
    Sum sum;
    uint64_t trials = 0, failed = 0;
    const auto begin = std::chrono::steady_clock::now();
    for (uint64_t seed = options.seed; sum.all.deaths < options.points; ++seed) {
        const std::string replay = command(options, seed);
        say_on_abort(replay);
        const RadosReport report =
            run_rados_trial(seed, {.missing = find_rule(options.remove_rule)});
        ++trials;
        sum.add(report);
        if (!report.problems.empty() && ++failed <= failures_shown_max) {
            fmt::print("seed {} FAILED; replay: {}\n", seed, replay);
            for (const std::string& problem : report.problems) fmt::print("  {}\n", problem);
        }
        if (options.progress) {
            fmt::print(stderr, "\r{} of {} deaths, {} failed trials", sum.all.deaths,
                       options.points, failed);
        }
        if (failed > failures_max) break;
    }
    if (options.progress) fmt::print(stderr, "\n");
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    fmt::print(
        "  {} deaths, {} of them during a mount, {} of clients that were misled; {} requests of "
        "these "
        "clients; {} operations, {} repeated by another client; {} came back after a day; the "
        "replies to {} clients were "
        "removed\n  {} trials from seed {} on, {:.1f} s\n",
        sum.all.deaths, sum.all.in_mount, sum.all.misled, sum.all.requests, sum.all.operations,
        sum.all.repeated, sum.all.after_a_day, sum.all.clients_dropped, trials, options.seed,
        seconds);
    std::vector<std::string> lacking;
    if (options.points >= points_of_campaign && options.remove_rule.empty()) lacking = sum.lacks();
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
