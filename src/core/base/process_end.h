// The end of another process of this machine.
#pragma once
#include <sys/types.h>

namespace ros2s {

// True if a SIGKILL waits for the thread with this number, or for its process. For each signal that
// ends a process, the kernel lets one wait for each of its threads.
[[nodiscard]] bool is_killed(pid_t thread);

// True if the process has ended, is being removed, or has a pending SIGKILL, or if no process has
// the number. A killed process keeps its files, locks and sockets until the kernel has removed it,
// which takes longer the more memory it had. Until then it must not be taken for a running process.
// Source: proc(5), /proc/PID/stat (state, flags) and /proc/PID/status.
[[nodiscard]] bool is_ending(pid_t pid);

// True if it is ending and has no more than one thread. The other threads of a process may go on
// after its first one, which is then shown as ended.
[[nodiscard]] bool has_ended(pid_t pid);

}  // namespace ros2s
