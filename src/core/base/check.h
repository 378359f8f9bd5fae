// CHECK: an assertion on our own logic, always compiled in. Conditions that the outside world can
// cause (a peer's bytes, a disk, a user's configuration) are an Error, never a CHECK.
#pragma once

namespace ros2s {
[[noreturn]] void check_failed(const char* expression, const char* file, int line) noexcept;
}

#define ROS2S_CHECK(expression)                                     \
    do {                                                            \
        if (!(expression)) [[unlikely]]                             \
            ::ros2s::check_failed(#expression, __FILE__, __LINE__); \
    } while (false)
