// LocalFs: FileSystem over a directory of the machine: Lustre, NFS, or ext4 in a test. A DPU serves
// such directories to hosts; the CLI copies from and to them. It is also how the contract suite of
// FileSystem is checked against a real kernel.
//
// Confinement: nothing outside the directory is reached. Names are single components, opened
// without following symbolic links; read_many's paths are resolved by openat2 with RESOLVE_BENEATH.
// Durability is that of the directory's file system: fsync makes durable what was written before.
// It stores no replies: an update that says that it was sent before is refused (`stale`) unless
// doing it twice does no harm. Numbers of nodes begin anywhere, so that one of an earlier process
// names nothing here.
//
// What is open costs two descriptors. Of nodes that are not in use a bounded number has one: others
// are opened again by the names under which they were found last, and are `stale` where these lead
// to another file. So a file that loses its name, or is moved by somebody else, is reached by its
// number as long as it is open, and else for a while.
#pragma once
#include <memory>
#include <string>

#include "ros2s/fs/file_system.h"
#include "ros2s/runtime/blocking.h"
#include "ros2s/runtime/reactor.h"

namespace ros2s::foreign {

struct LocalFsOptions {
    // Other file systems mounted below the directory are entered. Where not: `io`, with EXDEV.
    bool enters_mounts = true;
    // What is created for an owner to whom the kernel does not let this process give files stays
    // this process's, without set-id bits. Where not, creating it fails (`denied`).
    bool keeps_what_it_may_not_give = false;
    // Whoever uses it gets no power over this machine by it: what would be root's is nobody's,
    // files have no set-id bits (those that had lose them before they are written to), devices are
    // not made, and of extended attributes only those of users and access lists are changed
    // (`denied`).
    bool gives_no_power = false;
    // Descriptors that nodes have which no call and no open file uses.
    size_t descriptors_max = 1024;
};

// Whose root's files are instead.
inline constexpr uint32_t nobody = 65534;

// The reactor and the pool outlive the file system. File I/O goes through the reactor's ring where
// it has one; other system calls block, on the pool. Errors, each with a sentence: not_found,
// not_directory, denied, unsupported (no /proc).
[[nodiscard]] Task<Result<std::unique_ptr<fs::FileSystem>>> open_local_fs(
    std::string path, Reactor& reactor, BlockingPool& pool, Report& report,
    LocalFsOptions options = {});

// What kind of file system the directory lies on: "ext4", "nfs4", "lustre". Blocks. Errors: those
// of opening it, not_found (the kernel names none).
[[nodiscard]] Result<std::string> file_system_kind(const std::string& path);

}  // namespace ros2s::foreign
