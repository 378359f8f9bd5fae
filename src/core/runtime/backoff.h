// Backoff: the pauses between attempts. Each is twice as long as the one before, up to a longest.
#pragma once
#include <algorithm>
#include <cstdint>

#include "ros2s/runtime/time.h"

namespace ros2s {

struct Backoff {
    Duration first{};
    Duration longest{};
    int attempts = 0;  // that failed; 0 begins anew

    constexpr Duration next() {
        return std::min(first * (int64_t{1} << std::min(attempts++, 20)), longest);
    }
};

}  // namespace ros2s
