// crash_sharing: hosts that share a container under leases and locks, while they, their DPUs and
// the storage server are killed and the network is in trouble; then mounts that defer changes,
// while the storage server loses power (src/sim/offload/README.md).
//
//     crash_sharing --trials 100                  from seed 1 on
//     crash_sharing --seed 4711 --trials 1        the trial of one seed, which failed
//     crash_sharing --each-rule 40                each rule of sharing_rules.h is switched off in
//                                                 turn; one of 40 trials must notice it
#include <fmt/format.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <optional>
#include <string>

#include "campaign.h"
#include "ros2s/object/sharing_rules.h"
#include "ros2s/sim/engine/engine_rig.h"
#include "ros2s/sim/offload/deferred_trial.h"
#include "ros2s/sim/offload/offload_trial.h"
#include "ros2s/sim/offload/sharing_trial.h"

namespace ros2s::sim {
namespace {

using object::SharingRules;

// The simulation that needs the rule.
enum class Trial : uint8_t { sharing, deferred };

struct NamedRule {
    std::string_view name;
    bool SharingRules::* rule;
    Trial trial = Trial::sharing;
};
constexpr std::array named_rules = std::to_array<NamedRule>({
    {"await-leases", &SharingRules::await_leases},
    {"drop-older-grants", &SharingRules::drop_older_grants},
    {"count-from-sending", &SharingRules::count_from_sending},
    {"holder-stops-first", &SharingRules::holder_stops_first},
    {"drop-before-answer", &SharingRules::drop_before_answer},
    {"no-grant-amid-change", &SharingRules::no_grant_amid_change},
    {"end-with-session", &SharingRules::end_with_session},
    {"end-with-handle", &SharingRules::end_with_handle},
    {"lose-with-server", &SharingRules::lose_with_server},
    {"await-claims", &SharingRules::await_claims},
    {"refuse-late-claims", &SharingRules::refuse_late_claims},
    {"forget-overtaken", &SharingRules::forget_overtaken},
    {"fence-lost", &SharingRules::fence_lost},
    {"restore-unknown", &SharingRules::restore_unknown},
    {"await-repeats", &SharingRules::await_repeats, Trial::deferred},
    {"refuse-unaware", &SharingRules::refuse_unaware, Trial::deferred},
});
static_assert(sizeof(SharingRules) == named_rules.size(), "a rule without a name");

constexpr const char* usage =
    "usage: crash_sharing [--trials N] [--seed S] [--remove-rule NAME]\n"
    "       crash_sharing --each-rule N\n"
    "Hosts share a container under leases and locks, in N trials from seed S on. --remove-rule\n"
    "switches one rule off (sharing_rules.h): then a failure is what should be found.\n"
    "--each-rule does so with each of them, in up to N trials.\n";

struct Options {
    uint64_t trials = 20;
    uint64_t seed = 1;
    bool each_rule = false;
    const NamedRule* removed = nullptr;
};

const NamedRule* find_rule(std::string_view name) {
    const auto found = std::ranges::find(named_rules, name, &NamedRule::name);
    return found == named_rules.end() ? nullptr : &*found;
}

std::optional<Options> parse(int argc, char** argv) {
    Options options;
    for (int i = 1; i < argc; i += 2) {
        const std::string_view name = argv[i];
        const char* const value = i + 1 < argc ? argv[i + 1] : "";
        const std::optional<uint64_t> n = number(value);
        if ((name == "--trials" || name == "--each-rule") && n) {
            options.trials = *n;
            options.each_rule = name == "--each-rule";
        } else if (name == "--seed" && n) {
            options.seed = *n;
        } else if (name == "--remove-rule" && find_rule(value) != nullptr) {
            options.removed = find_rule(value);
        } else {
            fmt::print(stderr, "crash_sharing: {} {} is not understood\n{}", name, value, usage);
            return std::nullopt;
        }
    }
    return options;
}

std::string command(uint64_t seed, const NamedRule* removed) {
    return fmt::format("crash_sharing --seed {} --trials 1{}", seed,
                       removed != nullptr ? fmt::format(" --remove-rule {}", removed->name) : "");
}

// `only`: none: both.
SharingReport run_one(uint64_t seed, std::optional<Trial> only = {}) {
    EngineRigOptions rig{.data_bytes = 1 << 20, .pin_grace = sharing_grace};
    const auto make_rig = [&rig](World& world, Random& random) {
        return make_engine_rig(world, random, rig);
    };
    SharingReport report;
    if (only != Trial::deferred) report = run_sharing_trial(seed, make_rig);
    if (only == Trial::sharing) return report;
    rig.data_bytes = 8 << 20;
    const DeferredReport deferred = run_deferred_trial(seed, make_rig);
    report.storage_kills += deferred.storage_kills;
    report.repeated = deferred.repeated;
    report.problems.insert(report.problems.end(), deferred.problems.begin(),
                           deferred.problems.end());
    return report;
}

int run(const Options& options) {
    if (options.removed != nullptr) object::sharing_rules.*(options.removed->rule) = false;
    SharingReport sum;
    uint64_t failed = 0;
    const auto begin = std::chrono::steady_clock::now();
    for (uint64_t seed = options.seed; seed < options.seed + options.trials; ++seed) {
        const std::string replay = command(seed, options.removed);
        say_on_abort(replay);
        const SharingReport report = run_one(seed);
        sum.looks += report.looks;
        sum.hits += report.hits;
        sum.host_kills += report.host_kills;
        sum.dpu_kills += report.dpu_kills;
        sum.storage_kills += report.storage_kills;
        sum.locks += report.locks;
        sum.trouble += report.trouble;
        sum.repeated += report.repeated;
        sum.trace = report.trace;
        if (report.problems.empty()) continue;
        ++failed;
        fmt::print("seed {} FAILED; replay: {}\n", seed, replay);
        for (const std::string& problem : report.problems) fmt::print("  {}\n", problem);
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    fmt::print(
        "{} trials, {} failed, in {:.1f} s: {} looks, {} answered from caches; locks: {} granted, "
        "{} refused, {} without answer, {} lost, {} overtaken; {} hosts, {} DPUs and {} storage "
        "servers killed, {} faults of the network; {} lost changes repeated; the last trial's "
        "trace {:016x}\n",
        options.trials, failed, took.count(), sum.looks, sum.hits, sum.locks.granted,
        sum.locks.refused, sum.locks.unknown, sum.locks.lost, sum.locks.overtaken, sum.host_kills,
        sum.dpu_kills, sum.storage_kills, sum.trouble.all(), sum.repeated, sum.trace);
    return failed == 0 ? 0 : 1;
}

int try_each_rule(const Options& options) {
    size_t unnoticed = 0;
    for (const NamedRule& rule : named_rules) {
        const auto found = search_in_child(options.seed, options.trials, [&](uint64_t seed) {
            object::sharing_rules.*(rule.rule) = false;
            const SharingReport report = run_one(seed, rule.trial);
            return report.problems.empty() ? std::string() : report.problems.front();
        });
        if (!found) ++unnoticed;
        fmt::print("{} removed: {}\n", rule.name,
                   found ? fmt::format("seed {}: {}; replay: {}", found->seed, found->seen,
                                       command(found->seed, &rule))
                         : "NOT noticed");
        std::fflush(stdout);
    }
    fmt::print("{} passed, {} failed\n", named_rules.size() - unnoticed, unnoticed);
    return unnoticed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace ros2s::sim

int main(int argc, char** argv) {
    const auto options = ros2s::sim::parse(argc, argv);
    if (!options) return 2;
    ros2s::sim::keep_memory();
    return options->each_rule ? ros2s::sim::try_each_rule(*options) : ros2s::sim::run(*options);
}
