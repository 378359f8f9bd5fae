// Shared by the crash programs: the distribution of crash points in a campaign, whether there were
// enough of each kind, and the command that repeats a failed trial.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ros2s/sim/rig.h"

namespace ros2s::sim {

// A campaign with at least this many points must satisfy Distribution::lacks. A smaller one repeats
// trials.
inline constexpr uint64_t points_of_campaign = 100;

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
[[nodiscard]] std::optional<uint64_t> number(const char* text);

// Prints how to repeat the trial if a failed CHECK ends the process. Valid until the next call.
void say_on_abort(const std::string& replay);

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
