// LocalFs: FileSystem over a directory of the machine: Lustre, NFS, or ext4 in a test. It is also
// how the contract suite of FileSystem is checked against a real kernel.
//
// Confinement: nothing outside the directory is reached. Names are single components, opened
// without following symbolic links; read_many's paths are resolved by openat2 with RESOLVE_BENEATH.
// Durability is that of the directory's file system: fsync makes durable what was written before.
//
// A node costs one descriptor from its first look-up until forget() (O_PATH); where there are none
// left, calls fail with `io` and the kernel's error.
#pragma once
#include <memory>
#include <string>

#include "ros2s/fs/file_system.h"
#include "ros2s/runtime/blocking.h"
#include "ros2s/runtime/reactor.h"

namespace ros2s::foreign {

// The reactor and the pool outlive the file system. File I/O goes through the reactor's ring where
// it has one; other system calls block, on the pool. Errors, each with a sentence: not_found,
// not_directory, denied, unsupported (no /proc).
[[nodiscard]] Task<Result<std::unique_ptr<fs::FileSystem>>> open_local_fs(std::string path,
                                                                          Reactor& reactor,
                                                                          BlockingPool& pool,
                                                                          Report& report);

}  // namespace ros2s::foreign
