#include "campaign.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <malloc.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <cstring>
#include <iterator>

namespace ros2s::sim {

void Distribution::add(const CrashPoint& point) {
    ++points_;
    in_recovery_ += point.in_recovery ? 1 : 0;
    in_growth_ += point.in_growth ? 1 : 0;
    in_container_change_ += point.in_container_change ? 1 : 0;
    after_error_ += point.after_error ? 1 : 0;
    power_ += point.kind == CrashKind::power ? 1 : 0;
    two_unflushed_ += point.unflushed_writes >= 2 ? 1 : 0;
    ++at_[point.operation];
    size_t bucket = 0;
    while (bucket + 1 < std::size(buckets) && point.unflushed_writes >= buckets[bucket + 1]) {
        ++bucket;
    }
    ++unflushed_[bucket];
}

std::vector<std::string> too_rare(std::span<const Floor> floors, uint64_t points) {
    std::vector<std::string> lacking;
    for (const Floor& floor : floors) {
        if (floor.found * 100 >= floor.percent * points) continue;
        lacking.push_back(fmt::format("{} {}, of {}; at least {} % should be", floor.found,
                                      floor.what, points, floor.percent));
    }
    return lacking;
}

std::vector<std::string> Distribution::lacks() const {
    const Floor floors[] = {
        {"points with two or more unflushed writes", two_unflushed_, 50},
        {"points inside recovery", in_recovery_, 10},
        {"power losses", power_, 50},
        {"process crashes", points_ - power_, 15},
    };
    std::vector<std::string> lacking = too_rare(floors, points_);
    if (changes_ == Changes::none) return lacking;
    // A few percent of the points are of these kinds, so a small campaign may have none.
    if (points_ >= 10 * points_of_campaign && in_growth_ == 0) {
        lacking.emplace_back("none while a device was added");
    }
    if (points_ >= 10 * points_of_campaign && in_container_change_ == 0) {
        lacking.emplace_back("none while a container was made or destroyed");
    }
    return lacking;
}

void Distribution::print() const {
    const auto share = [&](uint64_t n) {
        return 100.0 * static_cast<double>(n) / static_cast<double>(points_);
    };
    fmt::print(
        "{} crash points: {} power losses, {} process crashes; {} ({:.0f} %) inside "
        "recovery; {} ({:.0f} %) with two or more unflushed writes\n",
        points_, power_, points_ - power_, in_recovery_, share(in_recovery_), two_unflushed_,
        share(two_unflushed_));
    if (changes_ != Changes::none)
        fmt::print("  {} while a device was added, {} while a container was made or destroyed\n",
                   in_growth_, in_container_change_);
    fmt::print("  at a");
    for (const auto& [operation, count] : at_) fmt::print("  {} {}", operation, count);
    fmt::print("\n  unflushed writes");
    for (size_t i = 0; i < std::size(buckets); ++i) {
        const bool last = i + 1 == std::size(buckets);
        const bool one = !last && buckets[i + 1] == buckets[i] + 1;
        fmt::print("  {}{}: {}", buckets[i],
                   one ? "" : (last ? "+" : fmt::format("-{}", buckets[i + 1] - 1)), unflushed_[i]);
    }
    fmt::print("\n");
}

std::optional<uint64_t> number(const std::string& text) {
    uint64_t value = 0;
    const char* end = text.data() + text.size();
    const auto parsed = std::from_chars(text.data(), end, value);
    if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
    return value;
}

namespace {
char aborted_at[512];
void say_seed(int) {
    (void)!write(STDERR_FILENO, aborted_at, std::strlen(aborted_at));
    _exit(134);
}
}  // namespace

void say_on_abort(const std::string& replay) {
    const auto end = fmt::format_to_n(aborted_at, sizeof aborted_at - 1, "replay: {}\n", replay);
    *end.out = '\0';
    signal(SIGABRT, say_seed);
}

Campaign::Campaign(std::string program, std::string usage, std::vector<Option> options)
    : program_(std::move(program)), usage_(std::move(usage)) {
    std::ranges::move(options, std::back_inserter(options_));
}

bool Campaign::read(int argc, char** argv) {
    for (int i = 1; i < argc; i += 2) {
        const std::string name = argv[i], value = i + 1 < argc ? argv[i + 1] : "";
        const auto option =
            std::ranges::find(options_, name, [](const Option& each) { return "--" + each.name; });
        if (option != options_.end() && option->read(value)) continue;
        fmt::print(stderr, "{}: {} {} is not understood\n{}", program_, name, value, usage_);
        return false;
    }
    return true;
}

std::string Campaign::command(uint64_t seed) const {
    std::string text = fmt::format("{} --seed {} --points 1", program_, seed);
    for (const Option& option : std::span(options_).subspan(2)) {
        const std::string value = option.text();
        if (!value.empty()) text += fmt::format(" --{} {}", option.name, value);
    }
    return text;
}

void Campaign::run(const std::function<uint64_t()>& points,
                   const std::function<std::vector<std::string>(uint64_t seed)>& trial) {
    constexpr uint64_t failures_shown_max = 5, failures_max = 20;
    const bool shows_progress = isatty(STDERR_FILENO) == 1;
    const auto begin = std::chrono::steady_clock::now();
    // A trial may end without a point if the store cannot be created.
    for (uint64_t seed = first_seed_; points() < points_ && failed_ <= failures_max; ++seed) {
        const std::string replay = command(seed);
        say_on_abort(replay);
        const std::vector<std::string> problems = trial(seed);
        ++trials_;
        if (!problems.empty() && ++failed_ <= failures_shown_max) {
            fmt::print("seed {} FAILED; replay: {}\n", seed, replay);
            for (const std::string& problem : problems) fmt::print("  {}\n", problem);
        }
        if (!shows_progress) continue;
        fmt::print(stderr, "\r{} of {} points, {} failed trials", points(), points_, failed_);
    }
    if (shows_progress) fmt::print(stderr, "\n");
    duration_ = std::chrono::steady_clock::now() - begin;
}

std::string Campaign::trials() const {
    return fmt::format("{} trials from seed {} on, {:.1f} s", trials_, first_seed_,
                       duration_.count());
}

int Campaign::finish(const std::vector<std::string>& lacking) const {
    for (const std::string& what : lacking) fmt::print("FAILED: too little happened: {}\n", what);
    fmt::print("{} passed, {} failed\n", trials_ - failed_, failed_ + lacking.size());
    return failed_ == 0 && lacking.empty() ? 0 : 1;
}

void keep_memory() {
    mallopt(M_MMAP_THRESHOLD, 64 << 20);
    mallopt(M_TRIM_THRESHOLD, 512 << 20);
}

namespace {
// Runs in the child: prints each seed before its trial, and ends with the first trial that fails.
[[noreturn]] void search_here(int out, uint64_t from, uint64_t trials, const RunTrial& run) {
    dup2(out, STDERR_FILENO);  // where a failed CHECK says what it has found
    for (uint64_t seed = from; seed < from + trials; ++seed) {
        fmt::print(stderr, "\n{} ", seed);
        const std::string problem = run(seed);
        if (problem.empty()) continue;
        fmt::print(stderr, "{}", problem);
        _exit(0);
    }
    fmt::print(stderr, "\n");
    _exit(0);
}
}  // namespace

std::optional<Detection> search_in_child(uint64_t from, uint64_t trials, const RunTrial& run) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return std::nullopt;
    std::fflush(nullptr);
    const pid_t child = fork();
    if (child == 0) search_here(ends[1], from, trials, run);
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

}  // namespace ros2s::sim
