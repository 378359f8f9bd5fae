// crash_rules: removes each rule of the commit protocol in turn and shows that the crash suite
// notices.
//
//     crash_rules --write docs/crash-rules.md   searches, and writes the table
//     crash_rules --check docs/crash-rules.md   each rule is noticed, the intact engine is clean,
//                                               and the table is of this engine, row by row
//
// The trials without a rule run in a child process: an engine without its rules may well fail a
// CHECK.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "campaign.h"
#include "ros2s/base/crc32c.h"
#include "ros2s/sim/engine/engine_rig.h"
#include "ros2s/sim/trial.h"
#include "rules.h"

namespace ros2s::sim {
namespace {

constexpr uint64_t trials_max = 2500;    // of the search, for each rule and set-up
constexpr uint64_t points_of_trial = 8;  // about

TrialReport run(uint64_t seed, const SetUp& in, const NamedRule* removed) {
    EngineRigOptions rig{.groups_in_flight = in.groups,
                         .cores = in.cores,
                         .device_errors = in.errors,
                         .scarcity = true};
    if (removed != nullptr) rig.rules.*(removed->rule) = false;
    return run_trial(
        seed, [&](World& world, Random& random) { return make_engine_rig(world, random, rig); },
        {.cores = in.cores, .deferred = in.deferred});
}

std::string to_string(const SetUp& in) {
    return fmt::format("{} group{}{}{}{}", in.groups, in.groups == 1 ? "" : "s",
                       in.cores == 1 ? "" : fmt::format(", {} cores", in.cores),
                       in.errors ? ", errors" : "", in.deferred ? ", deferred" : "");
}

struct Detection {
    uint64_t seed = 0;
    std::string seen;
};

// Runs in the child: prints each seed before its trial, and ends with the first trial that fails.
[[noreturn]] void search_here(int out, const NamedRule& rule, const SetUp& in, uint64_t from,
                              uint64_t trials) {
    dup2(out, STDERR_FILENO);  // where a failed CHECK says what it has found
    for (uint64_t seed = from; seed < from + trials; ++seed) {
        fmt::print(stderr, "\n{} ", seed);
        const TrialReport report = run(seed, in, &rule);
        if (report.problems.empty()) continue;
        fmt::print(stderr, "{}", report.problems.front());
        _exit(0);
    }
    fmt::print(stderr, "\n");
    _exit(0);
}

std::optional<Detection> search(const NamedRule& rule, const SetUp& in, uint64_t from,
                                uint64_t trials) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return std::nullopt;
    std::fflush(nullptr);
    const pid_t child = fork();
    if (child == 0) search_here(ends[1], rule, in, from, trials);
    close(ends[1]);
    // "
    // <seed> " for each trial. The output of the last trial follows its seed.
    std::string said;
    char buffer[4096];
    for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;) {
        said.append(buffer, static_cast<size_t>(n));
    }
    close(ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    // A failed CHECK adds lines after the first.
    const size_t please = said.find("\nThis is a bug");
    if (please != std::string::npos) said.resize(please);
    const size_t last = said.rfind('\n');
    if (last == std::string::npos) return std::nullopt;
    Detection found;
    const char* begin = said.data() + last + 1;
    const auto parsed = std::from_chars(begin, said.data() + said.size(), found.seed);
    if (parsed.ec != std::errc()) return std::nullopt;
    found.seen = said.substr(static_cast<size_t>(parsed.ptr + 1 - said.data()));
    if (found.seen.empty()) found.seen = fmt::format("ended with status {}", status);
    // A unity build has absolute paths.
    if (found.seen.starts_with('/') || found.seen.starts_with('.')) {
        const size_t path = found.seen.rfind("/src/");
        if (path != std::string::npos) found.seen.erase(0, path + 1);
    }
    return found;
}

// ---- the table -----------------------------------------------------------------------------

// A line of the table has one of these for each set-up of its rule.
struct Row {
    std::string rule;
    std::string in;                // to_string(SetUp)
    std::optional<uint64_t> seed;  // none: not noticed
};

constexpr std::string_view fingerprint_line = "Fingerprint of its schedules: ";

// A fingerprint of the intact engine's first trials. A change of the engine or the workload that
// shifts the schedules changes it. The seeds that show a missing rule then change, too.
std::string fingerprint() {
    std::string text;
    for (const SetUp& in : all_set_ups) {
        for (uint64_t seed = 1; seed <= 5; ++seed) {
            const TrialReport report = run(seed, in, nullptr);
            text += fmt::format("{} {} {} {};", report.transactions, report.reads,
                                report.containers, report.growths);
            for (const CrashPoint& point : report.points) {
                text += fmt::format("{} {},", point.operation, point.unflushed_writes);
            }
        }
    }
    return fmt::format("{:08x}", crc32c(as_bytes(text)));
}

struct Totals {
    uint64_t points = 0, trials = 0;  // that the intact engine passed
    uint64_t rows = 0;
    uint64_t seed_max = 0;  // of the rows in which a rule is noticed first, the last
};

std::string table_head(const Totals& totals) {
    constexpr std::string_view text =
        "# What breaks without each rule of the engine\n"
        "\n"
        "Generated by `./dev sim`; do not edit. Each row is a planted bug: one rule of the engine\n"
        "(`src/store/engine/rules/commit_rules.h`) is switched off. The crash suite "
        "(`tests/crash`) then "
        "runs\n"
        "trials from seed 1 on until one fails. A replay prints what was seen.\n"
        "\n"
        "- There are {} rules and {} seeds. A rule is tried with one and with three groups in "
        "flight,\n"
        "  on several cores, with devices that report errors, or both.\n"
        "- Each rule is noticed within {} crash points, about {} of which are one trial.\n"
        "- The engine with all its rules passes the same trials: {} crash points in {} trials.\n"
        "\n"
        "A change of the engine's schedules moves the seeds. Then the fingerprint is another, and\n"
        "a test fails until the table is written anew.\n"
        "\n"
        "{}{}\n"
        "\n"
        "Replay a seed: `build/release/tests/crash/crash_suite --seed SEED --points 1 --groups N\n"
        "--cores N --errors yes --remove-rule RULE`.\n"
        "\n"
        "| rule removed | seed in each set-up |\n"
        "|---|---|\n";
    return fmt::format(text, named_rules.size(), totals.rows, totals.seed_max * points_of_trial,
                       points_of_trial, totals.points, totals.trials, fingerprint_line,
                       fingerprint());
}

// The absence of every rule must be noticed in one of its set-ups.
int write_table(const char* path) {
    Totals totals;
    bool good = true;
    std::string rows;
    for (const NamedRule& rule : named_rules) {
        uint64_t first = UINT64_MAX;  // seed
        std::string seeds;
        for (const SetUp& in : rule.set_ups) {
            const auto found = search(rule, in, 1, trials_max);
            ++totals.rows;
            if (found) first = std::min(first, found->seed);
            seeds += fmt::format("{}{}: {}", seeds.empty() ? "" : "; ", to_string(in),
                                 found ? std::to_string(found->seed) : "none");
            fmt::print("{} | {}: {}\n", rule.name, to_string(in),
                       found ? fmt::format("{}: {}", found->seed, found->seen) : "not noticed");
            std::fflush(stdout);
            if (!found) continue;
            // The same trial with the rule must pass.
            const TrialReport intact = run(found->seed, in, nullptr);
            totals.points += intact.points.size();
            ++totals.trials;
            if (intact.problems.empty()) continue;
            good = false;
            fmt::print(stderr, "crash_rules: seed {}, {} fails with all rules too: {}\n",
                       found->seed, to_string(in), intact.problems.front());
        }
        rows += fmt::format("| {} | {} |\n", rule.name, seeds);
        if (first == UINT64_MAX) {
            good = false;
            fmt::print(stderr, "crash_rules: nothing notices that {} is gone\n", rule.name);
        } else {
            totals.seed_max = std::max(totals.seed_max, first);
        }
    }
    std::ofstream file(path, std::ios::trunc);
    file << table_head(totals) << rows;
    file.close();
    if (!file) {
        fmt::print(stderr, "crash_rules: {} cannot be written\n", path);
        return 1;
    }
    return good ? 0 : 1;
}

// Adds those of a line. A line that is not of a rule has none.
void parse_line(const std::string& line, std::vector<Row>& rows) {
    const size_t rule_end = line.find(" | ");
    if (!line.starts_with("| ") || !line.ends_with(" |") || rule_end == std::string::npos) return;
    const size_t end = line.size() - 2;
    const std::string rule = line.substr(2, rule_end - 2);
    for (size_t at = rule_end + 3; at < end;) {
        const size_t next = std::min(line.find("; ", at), end);
        const size_t colon = line.find(": ", at);
        if (colon > next) return;
        Row row{.rule = rule, .in = line.substr(at, colon - at), .seed = std::nullopt};
        uint64_t seed = 0;
        const char* const digits = line.data() + colon + 2;
        if (std::from_chars(digits, line.data() + next, seed).ec == std::errc()) row.seed = seed;
        rows.push_back(std::move(row));
        at = next + 2;
    }
}

struct Table {
    std::string fingerprint;
    std::vector<Row> rows;
};

Table read_table(const char* path) {
    std::ifstream file(path);
    Table table;
    for (std::string line; std::getline(file, line);) {
        if (line.starts_with(fingerprint_line)) {
            table.fingerprint = line.substr(fingerprint_line.size());
        } else {
            parse_line(line, table.rows);
        }
    }
    return table;
}

// Describes what is wrong with the rows of a rule. Empty: a search would write the same rows, and
// the intact engine passes the trial of the first.
std::string wrong_with(const NamedRule& rule, const std::vector<Row>& rows) {
    bool noticed = false;
    for (const SetUp& in : rule.set_ups) {
        const auto same = [&](const Row& row) {
            return row.rule == rule.name && row.in == to_string(in);
        };
        const auto row = std::ranges::find_if(rows, same);
        if (row == rows.end()) return fmt::format("has no row for {}", to_string(in));
        if (!row->seed) continue;  // not noticed, in a search that takes long
        const auto found = search(rule, in, *row->seed, 1);
        if (!found) return fmt::format("is not noticed at seed {}, {}", *row->seed, to_string(in));
        if (noticed) continue;
        noticed = true;
        fmt::print("{} removed, {}: seed {}: {}\n", rule.name, to_string(in), found->seed,
                   found->seen);
        const TrialReport intact = run(found->seed, in, nullptr);
        if (intact.problems.empty()) continue;
        return fmt::format("in place, seed {}, {} fails, too: {}", found->seed, to_string(in),
                           intact.problems.front());
    }
    return noticed ? "" : "is noticed in no row";
}

int check_table(const char* path) {
    const Table table = read_table(path);
    if (const std::string present = fingerprint(); table.fingerprint != present) {
        fmt::print(
            "FAILED {}: it is of an engine with other schedules (fingerprint {}, now {}); write it "
            "anew: ./dev sim --table\n0 passed, 1 failed\n",
            path, table.fingerprint.empty() ? "none" : table.fingerprint, present);
        return 1;
    }
    size_t failed = 0;
    for (const Row& row : table.rows) {
        if (find_rule(row.rule) != nullptr) continue;
        ++failed;
        fmt::print("FAILED {}: there is no rule {}; write it anew: ./dev sim --table\n", path,
                   row.rule);
    }
    for (const NamedRule& rule : named_rules) {
        const std::string wrong = wrong_with(rule, table.rows);
        if (wrong.empty()) continue;
        ++failed;
        fmt::print("FAILED {}: {} {}; write it anew: ./dev sim --table\n", path, rule.name, wrong);
    }
    fmt::print("{} passed, {} failed\n", named_rules.size() - std::min(failed, named_rules.size()),
               failed);
    return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace ros2s::sim

int main(int argc, char** argv) {
    ros2s::sim::keep_memory();
    const std::string_view what = argc == 3 ? argv[1] : "";
    if (what == "--write") return ros2s::sim::write_table(argv[2]);
    if (what == "--check") return ros2s::sim::check_table(argv[2]);
    fmt::print(stderr, "usage: crash_rules --write|--check docs/crash-rules.md\n");
    return 2;
}
