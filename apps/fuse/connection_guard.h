// The guard of a mount: a process that aborts the mount's connection when the mount's process ends.
// The kernel does so when the last descriptor of /dev/fuse is closed. But a thread that drops pages
// may wait for a page that nobody provides any more. It cannot be killed, and keeps the descriptors
// open: every program that uses the mount would hang for ever.
#pragma once
#include <sys/types.h>

#include <span>
#include <string>

#include "ros2s/base/descriptor.h"
#include "ros2s/base/result.h"

namespace ros2s::fuse {

// The file that aborts the connection of the mount with this device ("0:53"). The user who mounted
// owns it. Errors: those of open(2); not_found if the kernel's file system of connections is not
// mounted.
[[nodiscard]] Result<Descriptor> open_abort_file(const std::string& device);
// Starts the guard. It ends after the calling thread, which may not end before its process does.
// Root needs no file. `command_line` is the memory of main()'s arguments, where the guard puts its
// name. Errors: that of `abort_file`, for others than root.
[[nodiscard]] Result<pid_t> guard_connection(const std::string& mount_point,
                                             Result<Descriptor> abort_file,
                                             std::span<char> command_line);
// After the file system is unmounted: another one may be mounted in its place.
void end_guard(pid_t guard) noexcept;

}  // namespace ros2s::fuse
