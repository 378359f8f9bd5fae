// The mount point: its requirements, and unmounting.
#pragma once
#include <string>

#include "ros2s/base/result.h"

namespace ros2s::fuse {

// The absolute path of a directory that can be mounted on. A dead mount of ours (its process was
// killed) is removed first. Errors: not_found, not_directory, not_empty, busy (mounted on), denied,
// unsupported (this machine or container has no FUSE); the report has the remedy.
[[nodiscard]] Result<std::string> prepare_mount_point(const std::string& path, bool allow_other,
                                                      Report& report);

// Unmounts a living mount. The kernel first writes back what programs left in shared mappings, and
// the mount's process must serve these writes. Blocks. Errors: busy (files are open), denied.
[[nodiscard]] Result<> unmount_cleanly(const std::string& mount_point);

// Makes the kernel write back what programs left in shared mappings, as sync(1) does. Blocks, and
// the mount's process must serve the writes.
[[nodiscard]] Result<> write_back(const std::string& mount_point);

// Sets how far the kernel reads ahead of a program that reads sequentially. FUSE mounts start at
// 128 KiB, and only root may set more. Does not use the mounted file system. Errors: denied,
// not_found, io.
[[nodiscard]] Result<> set_read_ahead(const std::string& mount_point, uint64_t bytes);

}  // namespace ros2s::fuse
