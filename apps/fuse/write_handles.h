// WriteHandles: handles of the right kind for each write, if the kernel caches nothing.
//
// O_APPEND: the kernel's size of a file is then out of date, and so are the offsets of its appends.
// The file system appends itself, through a handle that was opened for that. One file may need both
// kinds: fcntl(2) turns O_APPEND on and off, and the kernel writes pages of a shared mapping back
// to their offsets through any open file.
//
// Set-id bits: root's handle keeps them. The kernel says at each write that the program may not, if
// root opened the file for another program.
//
// Locks are set through the first handle. Before a write through another one, the first one is
// asked whether the server has kept them.
//
// A write of another kind gets another handle, which the first such write opens, as the user who
// opened the file: the kernel does not report for whom it writes pages back.
#pragma once
#include <map>
#include <vector>

#include "ros2s/fs/caller.h"
#include "ros2s/fs/file_system.h"

namespace ros2s::fuse {

class WriteHandles {
  public:
    explicit WriteHandles(fs::FileSystem& file_system) : file_system_(file_system) {}

    // As in OpenFlags.
    struct Kind {
        bool appends = false;
        bool keeps_set_ids = false;
    };
    // `handle` was opened for writing by `user`.
    void opened(fs::FileHandle handle, const fs::Caller& user, Kind kind);
    // A lock may be set through the handle.
    void may_be_locked(fs::FileHandle handle);
    // The handle for a write of the wanted kind: with append or with an offset, and with or without
    // the right to keep set-id bits. Errors: those of open(); io (a lock is lost).
    Task<Result<fs::FileHandle>> find(fs::NodeId node, fs::FileHandle opened, Kind wanted);
    // Closes it, and the handles that find() opened for it.
    Task<Result<>> close(const Call& call, fs::FileHandle opened);

  private:
    struct Other {
        Kind kind;
        fs::FileHandle handle;
    };
    struct Opened {
        Kind kind;
        uint32_t uid = 0, gid = 0;
        std::vector<uint32_t> groups;
        std::vector<Other> others;
        bool may_be_locked = false;
    };
    static const Other* find_other(const Opened& file, Kind wanted);

    fs::FileSystem& file_system_;
    std::map<fs::FileHandle, Opened> opened_;
};

}  // namespace ros2s::fuse
