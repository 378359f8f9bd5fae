// Starts a program that is not this process's child: it is in a session of its own, init adopts it,
// and wait() and SIGCHLD here do not see it.
//
// Any thread. Not a fork: handlers of libraries do not run.
#pragma once
#include <span>
#include <string>

namespace ros2s {

// The number of the first descriptor in the program; the next ones follow.
inline constexpr int first_passed_descriptor = 3;

// `arguments`: the file of the program first. It has these descriptors, none others, and /dev/null
// as its standard ones. All signals are blocked in it. Returns 0 or an errno.
[[nodiscard]] int start_detached(std::span<const std::string> arguments,
                                 std::span<const int> descriptors);

}  // namespace ros2s
