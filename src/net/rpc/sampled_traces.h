// SampledTraces: the steps of every n-th request that the servers of a process answered. The latest
// `kept_max` are kept, for an operator who looks where the time of requests goes.
//
// A member of ServerGroup; used on its core. Bounded: requests, and steps of each.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "ros2s/runtime/trace.h"

namespace ros2s::rpc {

class SampledTraces {
  public:
    static constexpr size_t kept_max = 256;
    static constexpr size_t steps_max = 128;  // of a request; further ones are left out

    // Every `every`-th request from now on; 0: none, which is the default.
    void set_every(uint32_t every) { every_ = every; }
    // Called for each request. Returns whether it gets a trace.
    [[nodiscard]] bool take_next() noexcept {
        if (every_ == 0 || ++passed_ < every_) return false;
        passed_ = 0;
        return true;
    }
    // A request that is answered. `method`: a literal. Copies the rest.
    void add(std::string_view method, std::string_view tenant, const Trace& trace);
    // A trace file (runtime/trace_events.h). Its times are those of the machine's monotonic clock.
    // `home`: the program.
    [[nodiscard]] std::string document(std::string_view home) const;

  private:
    struct Step {
        std::string name;
        int depth;
        Time begin, end;
    };
    struct Sample {
        std::string_view method;
        std::string tenant;
        std::vector<Step> steps;
    };
    uint32_t every_ = 0;
    uint32_t passed_ = 0;
    std::vector<Sample> samples_;  // a ring
    size_t oldest_ = 0;            // of a full ring
};

}  // namespace ros2s::rpc
