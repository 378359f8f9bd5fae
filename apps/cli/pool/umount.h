// umount: makes a mount durable, and ends it.
#pragma once
#include <string>

#include "commands.h"

namespace ros2s::cli {

// `lazily`: also if a process has its working directory there. The mount is dead, so nothing is
// lost. Root unmounts itself, others by fuse's set-uid helper. False: it was not mounted any more,
// and its process may still be ending.
[[nodiscard]] Task<Result<bool>> unmount(CommandContext context, const std::string& mount_point,
                                         bool lazily);

}  // namespace ros2s::cli
