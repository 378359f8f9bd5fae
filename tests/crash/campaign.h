// Shared by the crash programs: the command line of a campaign and its trials, the distribution of
// their crash points, whether there were enough of each kind, and the command that repeats a failed
// trial.
#pragma once
#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ros2s/sim/rig.h"

namespace ros2s::sim {

// A campaign with at least this many points must satisfy Distribution::lacks. A smaller one repeats
// trials.
inline constexpr uint64_t points_of_campaign = 100;

// A kind of event of which a campaign must have some for its points.
struct Floor {
    std::string_view what;
    uint64_t found;
    uint64_t percent;  // of the points
};
// Names the kinds that were too rare.
[[nodiscard]] std::vector<std::string> too_rare(std::span<const Floor> floors, uint64_t points);

// Where the crashes happened. A campaign must have enough of each kind. Changes of the engine or
// the workload shift these shares; without this check, a suite that no longer crashes at the
// critical points would pass.
class Distribution {
  public:
    // Whether the trials let the store grow, and make and destroy containers.
    enum class Changes : uint8_t { none, growth_and_containers };
    explicit Distribution(Changes changes) : changes_(changes) {}
    void add(const CrashPoint& point);
    [[nodiscard]] uint64_t points() const { return points_; }
    [[nodiscard]] uint64_t after_error() const { return after_error_; }
    // Names the kinds that were too rare. Empty: the campaign is valid.
    [[nodiscard]] std::vector<std::string> lacks() const;
    void print() const;

  private:
    static constexpr size_t buckets[] = {0, 1, 2, 3, 5, 9, 17, 33};
    Changes changes_;
    uint64_t points_ = 0, in_recovery_ = 0, power_ = 0, two_unflushed_ = 0, in_growth_ = 0,
             in_container_change_ = 0, after_error_ = 0;
    std::map<std::string, uint64_t> at_;
    uint64_t unflushed_[std::size(buckets)] = {};
};

// The value of an option; nothing if it is not a number.
[[nodiscard]] std::optional<uint64_t> number(const std::string& text);

// Prints how to repeat the trial if a failed CHECK ends the process. Valid until the next call.
void say_on_abort(const std::string& replay);

// An option of a campaign's command line, `--name value`.
struct Option {
    std::string name;
    std::function<bool(const std::string& value)> read;  // false: it does not understand the value
    std::function<std::string()> text;                   // its value; empty: the usual one
};

template <std::unsigned_integral Number>
Option numeric(std::string name, Number& value, uint64_t min = 1,
               uint64_t max = std::numeric_limits<Number>::max()) {
    return {std::move(name),
            [&value, min, max](const std::string& text) {
                const auto n = number(text);
                if (!n || *n < min || *n > max) return false;
                value = static_cast<Number>(*n);
                return true;
            },
            [&value, usual = value] { return value == usual ? "" : std::to_string(value); }};
}

template <class Value>
Option one_of(std::string name, Value& value, std::map<std::string, Value> words) {
    return {
        std::move(name),
        [&value, words](const std::string& text) {
            const auto word = words.find(text);
            if (word == words.end()) return false;
            value = word->second;
            return true;
        },
        [&value, words, usual = value] {
            if (value == usual) return std::string();
            return std::ranges::find(words, value, [](auto& each) { return each.second; })->first;
        }};
}

inline Option yes_or_no(std::string name, bool& value) {
    return one_of(std::move(name), value, {{"yes", true}, {"no", false}});
}

// Trials, seed by seed, until there are enough points or too many trials have failed.
class Campaign {
  public:
    // `options`: those besides the number of points and the first seed.
    Campaign(std::string program, std::string usage, std::vector<Option> options);

    // False, after the usage, if it does not understand the arguments.
    [[nodiscard]] bool read(int argc, char** argv);
    // `points`: of the trials so far. `trial`: returns the problems of the trial with that seed.
    void run(const std::function<uint64_t()>& points,
             const std::function<std::vector<std::string>(uint64_t seed)>& trial);
    // For the last line of what it prints.
    [[nodiscard]] std::string trials() const;
    // `lacking`: what was too rare. Returns the exit status.
    [[nodiscard]] int finish(const std::vector<std::string>& lacking) const;
    [[nodiscard]] uint64_t points() const { return points_; }

  private:
    [[nodiscard]] std::string command(uint64_t seed) const;
    std::string program_, usage_;
    uint64_t points_ = 1000, first_seed_ = 1, trials_ = 0, failed_ = 0;
    std::vector<Option> options_{numeric("points", points_), numeric("seed", first_seed_, 0)};
    std::chrono::duration<double> duration_{};
};

struct Detection {
    uint64_t seed = 0;
    std::string seen;
};
// Returns the first problem of a trial; empty: none.
using RunTrial = std::function<std::string(uint64_t seed)>;
// The first trial that fails. In a child process: what lacks a rule may well fail a CHECK.
[[nodiscard]] std::optional<Detection> search_in_child(uint64_t from, uint64_t trials,
                                                       const RunTrial& run);

// The kernel need not zero buffers of a few hundred KiB each time. For disks of 128 MiB, of which
// little is written, it should.
void keep_memory();

}  // namespace ros2s::sim
