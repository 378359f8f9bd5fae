// A strike kills a running daemon at a point of its code that a test names.
#pragma once
#include <string>

namespace ros2s::tests {

// The points at which daemons are struck: the change is committed, and no client has the reply. At
// the last two the engine does not have the request yet.
namespace point {
inline constexpr const char* engine_commit = "ros2s::remote::encode_commit";
inline constexpr const char* dpu_write = "ros2s::hostlink::encode_moved";
inline constexpr const char* dpu_change = "ros2s::hostlink::StoredReplies::end";
inline constexpr const char* control_reply = "ros2s::control::ServedCall::end";
// Also where a request is refused.
inline constexpr const char* audit_line = "ros2s::session::AuditLines::write";
inline constexpr const char* dpu_asks_to_create = "ros2s::remote::RemoteStore::create_container";
inline constexpr const char* dpu_asks_to_destroy = "ros2s::remote::RemoteStore::destroy_container";
}  // namespace point

// The next thread that enters the function (full name, no overloads) kills the process by SIGTRAP
// at its first instruction, which becomes a breakpoint in the process's memory. `program`: the
// executable, with symbols. The function must not be inlined. The test fails if the breakpoint
// cannot be set.
void strike_at(int pid, const std::string& program, const std::string& function);

}  // namespace ros2s::tests
