// LocalDirectory: FileSystem over a directory of the machine: Lustre, NFS, or ext4 in a test. A DPU
// serves such directories to hosts, and the CLI copies from and to them. It also serves to check
// the contract suite of FileSystem against a real kernel.
//
// Confinement: nothing outside the directory can be reached. Names are single components, opened
// without following symbolic links. Paths of read_many are resolved by openat2 with
// RESOLVE_BENEATH. Durability is the one of the directory's file system: fsync makes earlier writes
// durable. LocalDirectory stores no replies: an update that is marked as sent before is refused
// (`stale`), unless doing it twice is harmless. Node numbers start at a random value, so a number
// of an earlier process is not valid here.
//
// An open file uses two descriptors. Of the nodes that are not in use, a limited number has one.
// The others are opened again by the names under which they were last found. They are `stale` if
// those names lead to another file. A file that loses its name, or is moved by another program, can
// therefore be reached by its number as long as it is open, and otherwise only for a while.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "ros2s/fs/caller.h"
#include "ros2s/fs/file_system.h"
#include "ros2s/runtime/blocking.h"
#include "ros2s/runtime/reactor.h"
#include "ros2s/runtime/turns.h"

namespace ros2s::foreign {

struct LocalDirectoryOptions {
    // Enter other file systems that are mounted below the directory. If false: `io`, with EXDEV.
    bool enters_mounts = true;
    // If the kernel does not let this process give a new file to its owner, the file stays this
    // process's, without set-id bits. If false, creating it fails (`denied`).
    bool keeps_what_it_may_not_give = false;
    // Clients must not gain power over this machine. Files that would belong to root belong to user
    // `nobody`. Files have no set-id bits, and existing ones lose them before they are written to.
    // Devices cannot be created. Of the extended attributes, only the user's can be changed
    // (`denied`), and access lists are `unsupported`.
    bool gives_no_power = false;
    // Descriptors of nodes that no call and no open file uses, and of names that one call finds.
    size_t descriptors_max = 1024;
    // Each write is durable when it returns, as with OpenFlags::sync.
    bool syncs_writes = false;
    // Directories above a name that is found or made. Beyond this: `name_too_long`. Opening a node
    // again takes a system call for each directory above it.
    size_t depth_max = 1024;
    // Nodes in all: those that were looked up, and the directories above them. Beyond this no other
    // file is found or made (`busy`).
    size_t nodes_max = SIZE_MAX;
    // Of tenants (Call::tenant) that share the helper threads; null: there is one. It outlives the
    // file system.
    ThreadTurns* turns = nullptr;
};

// The owner of files that would belong to root.
using fs::nobody;

// The reactor and the pool outlive the file system. File I/O uses the reactor's ring if it has one.
// Other system calls that may block run on the pool. The call's tenant is the one of opening and of
// close_all(). Errors, each with a sentence: not_found, not_directory, denied, unsupported (no
// /proc), cancelled, deadline.
[[nodiscard]] Task<Result<std::unique_ptr<fs::FileSystem>>> open_local_directory(
    std::string path, Reactor& reactor, BlockingPool& pool, Report& report,
    LocalDirectoryOptions options = {}, Call call = {});

// The kind of file system of the directory: "ext4", "nfs4", "lustre". Blocks. Errors: those of
// opening it, not_found (the kernel reports none).
[[nodiscard]] Result<std::string> file_system_kind(const std::string& path);

}  // namespace ros2s::foreign
