// The mount point: what must be true of it, and how it is given back.
#pragma once
#include <string>

#include "ros2s/base/result.h"

namespace ros2s::fuse {

// The absolute path of a directory that can be mounted on. A dead mount of ours (its process was
// killed) is taken away first. Errors: not_found, not_directory, not_empty, busy (mounted on),
// denied, unsupported (this machine or container has no FUSE); the report says what to do.
[[nodiscard]] Result<std::string> prepare_mount_point(const std::string& path, bool allow_other,
                                                      Report& report);

// Unmounts what lives; the kernel writes back first what programs left in shared mappings, which
// the mount's process must go on serving meanwhile. Blocks. Errors: busy (files are open), denied.
[[nodiscard]] Result<> unmount_cleanly(const std::string& mount_point);

// Has the kernel write back what programs left in shared mappings, as sync(1) does. Blocks, and the
// mount's process must go on serving meanwhile.
[[nodiscard]] Result<> write_back(const std::string& mount_point);

// How far the kernel reads ahead of a program that reads in order. FUSE mounts start at 128 KiB,
// and only root may say more. Does not touch the mounted file system. Errors: denied, not_found,
// io.
[[nodiscard]] Result<> set_read_ahead(const std::string& mount_point, uint64_t bytes);

}  // namespace ros2s::fuse
