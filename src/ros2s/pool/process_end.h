// Whether a process that still has a lock is about to lose it.
//
// A process that was killed keeps what it had open, locks and sockets included, for the moments
// that the kernel takes to clear it away: longer the more memory it had. Whoever asks meanwhile
// must not take it for one that lives. Source: proc(5), /proc/PID/stat (state, flags) and
// /proc/PID/status.
//
// The process of a mount lives on for moments, too: umount(2) returns before the process has heard
// of it.
//
// Blocks for moments; any thread.
#pragma once
#include <sys/types.h>

#include <string>

namespace ros2s::pool {

// It has ended, is being cleared away, or has SIGKILL before it. A number that is nobody's: true.
[[nodiscard]] bool is_ending(pid_t pid);
// Nothing is mounted on `mount_point`, as the process sees the file systems (proc(5),
// /proc/PID/mountinfo). False where that cannot be known.
[[nodiscard]] bool is_unmounted(pid_t pid, const std::string& mount_point);

}  // namespace ros2s::pool
