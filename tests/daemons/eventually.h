// Waits for something that another process will soon do.
#pragma once
#include <unistd.h>

#include <chrono>
#include <functional>

namespace ros2s::tests {

// Repeats the check until it succeeds, for at most this time.
inline bool eventually(const std::function<bool()>& condition,
                       std::chrono::seconds patience = std::chrono::minutes(1)) {
    const auto until = std::chrono::steady_clock::now() + patience;
    while (!condition()) {
        if (std::chrono::steady_clock::now() > until) return false;
        ::usleep(10'000);
    }
    return true;
}

}  // namespace ros2s::tests
