// A strike kills a running daemon at a point of its code that a test names.
#pragma once
#include <string>

namespace ros2s::tests {

// Of the points at which daemons are struck: what was asked for is committed, nobody was told.
namespace point {
inline constexpr const char* engine_commit = "ros2s::remote::encode_commit";
inline constexpr const char* dpu_write = "ros2s::hostlink::encode_moved";
inline constexpr const char* dpu_change = "ros2s::hostlink::StoredReplies::end";
inline constexpr const char* control_reply = "ros2s::control::ServedCall::end";
}  // namespace point

// Whoever enters the function (full name, no overloads) next kills the process, by SIGTRAP, before
// anything of the function is run: its first instruction becomes a breakpoint in the process's
// memory. `program`: the file that it runs, with its symbols. The function must not be inlined.
// A failure where that cannot be done.
void strike_at(int pid, const std::string& program, const std::string& function);

}  // namespace ros2s::tests
