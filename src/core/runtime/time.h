// Clocks of ros2store. Time is monotonic and starts at an arbitrary point. WallTime is UTC. Both
// are read from a Reactor, so a simulation controls them.
#pragma once
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <ctime>

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

// Conversion between the system's times and ours: 64 bits of nanoseconds, for the years 1677 to
// 2262. A time outside this range becomes the nearest one inside, as in Linux for file systems with
// a limited range.
namespace timespec_detail {
inline constexpr int64_t second_ns = 1'000'000'000;
// Whole seconds within the range, for any nanoseconds.
inline constexpr int64_t seconds_least = INT64_MIN / second_ns;
inline constexpr int64_t seconds_most = INT64_MAX / second_ns - 1;
}  // namespace timespec_detail

[[nodiscard]] constexpr bool is_representable(const timespec& time) noexcept {
    return time.tv_sec >= timespec_detail::seconds_least &&
           time.tv_sec <= timespec_detail::seconds_most;
}

[[nodiscard]] constexpr WallTime to_wall_time(const timespec& time) noexcept {
    const int64_t seconds = std::clamp<int64_t>(time.tv_sec, timespec_detail::seconds_least,
                                                timespec_detail::seconds_most);
    const bool is_whole = seconds == time.tv_sec;
    return WallTime{std::chrono::seconds(seconds) + Duration(is_whole ? time.tv_nsec : 0)};
}

[[nodiscard]] constexpr timespec to_timespec(WallTime time) noexcept {
    const auto since = time.time_since_epoch();
    const auto seconds = std::chrono::floor<std::chrono::seconds>(since);
    return {.tv_sec = static_cast<time_t>(seconds.count()),
            .tv_nsec = static_cast<long>((since - seconds).count())};
}

}  // namespace ros2s
