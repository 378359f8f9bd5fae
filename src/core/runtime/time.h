// Clocks of ros2store. Time is monotonic and starts at an arbitrary point. WallTime is UTC. Both
// are read from a Reactor, so a simulation controls them.
#pragma once
#include <chrono>
#include <cstdint>

namespace ros2s {

using Duration = std::chrono::nanoseconds;

struct MonotonicClock {
    using duration = Duration;
    using rep = duration::rep;
    using period = duration::period;
    using time_point = std::chrono::time_point<MonotonicClock>;
    static constexpr bool is_steady = true;
};
using Time = MonotonicClock::time_point;
using WallTime = std::chrono::sys_time<Duration>;

}  // namespace ros2s
