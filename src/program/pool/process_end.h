// This function returns whether a process that still has a lock is about to lose it.
//
// A killed process keeps its files, locks and sockets until the kernel has removed it, which takes
// longer the more memory it had. Until then it must not be taken for a running process. Source:
// proc(5), /proc/PID/stat (state, flags) and /proc/PID/status.
//
// The process of a mount continues for a short time, too: umount(2) returns before the process is
// informed.
//
// Blocks for a short time; any thread.
#pragma once
#include <sys/types.h>

#include <string>

namespace ros2s::pool {

// True if it has ended, is being removed, or has a pending SIGKILL, or if no process has the
// number.
[[nodiscard]] bool is_ending(pid_t pid);
// True if nothing is mounted on `mount_point` in the process's mount namespace (proc(5),
// /proc/PID/mountinfo). False if that is unknown.
[[nodiscard]] bool is_unmounted(pid_t pid, const std::string& mount_point);

}  // namespace ros2s::pool
