// The mounts of a pool. Dead mounts are entries of a killed ros2store-fuse in the kernel's table.
// The pool is not open any more, but each use of the mount point fails with "Transport endpoint is
// not connected". Only the table shows which pool it was: a mount's source is the container's URI.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "commands.h"
#include "ros2s/fs/unsynced.h"
#include "ros2s/pool/owner.h"

namespace ros2s::cli {

// A process in another mount namespace in which the pool is mounted. A new namespace has copies of
// the mounts. A copy, and its server, stay when the original is unmounted.
struct MountCopy {
    uint32_t pid = 0;
    std::string program;
    std::string mount_point;  // as that process sees it
};
// The first one in /proc that this user may look at. Blocks for a short time.
[[nodiscard]] std::optional<MountCopy> copy_of_mount(const std::string& directory);

// The mount points of the pool in a directory.
struct PoolMounts {
    std::vector<std::string> living;
    std::map<std::string, fs::UnsyncedAnswer> unsynced;  // of living ones that say it
    std::vector<std::string> silent;  // no answer for 2 seconds: the process or its daemon hangs
    std::vector<std::string> dead;    // the process has ended
};
// Checks each mount except that of the pool's current `owner`, which may be busy. Errors:
// cancelled.
[[nodiscard]] Task<Result<PoolMounts>> look_at_mounts(CommandContext context, std::string directory,
                                                      pool::OwnerRecord owner);

}  // namespace ros2s::cli
