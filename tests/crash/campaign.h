// What the programs that crash stores have in common: where the crashes of a campaign came, whether
// that is enough to mean something, and the way back from a failure to its seed.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ros2s/sim/rig.h"

namespace ros2s::sim {

// So many points must be spread as Distribution::lacks says; fewer replay something.
inline constexpr uint64_t points_of_campaign = 100;

// Where the crashes came. A campaign must have met enough of each kind to mean something: what the
// engine or the workload changes moves these shares, and a suite that no longer looks where things
// break would pass.
class Distribution {
  public:
    // Whether the trials let the store grow, and make and destroy containers.
    enum class Changes : uint8_t { none, growth_and_containers };
    explicit Distribution(Changes changes) : changes_(changes) {}
    void add(const CrashPoint& point);
    [[nodiscard]] uint64_t points() const { return points_; }
    [[nodiscard]] uint64_t after_error() const { return after_error_; }
    // What there is too little of; empty in a campaign that is worth its name.
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

// The value of an option; nothing where it is no number.
[[nodiscard]] std::optional<uint64_t> number(const char* text);

// A failed CHECK ends the process: then this is said, how to come there again. Kept until the next.
void say_on_abort(const std::string& replay);

// Buffers of a few hundred KiB come and go: the kernel need not zero them each time. It should do
// so with disks of 128 MiB, of which little is written.
void keep_memory();

}  // namespace ros2s::sim
