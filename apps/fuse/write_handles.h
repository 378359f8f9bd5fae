// WriteHandles: O_APPEND if the kernel caches nothing. The kernel's size of a file is then out of
// date, and so are the offsets of its appends. The file system appends itself, through a handle
// that was opened for that.
//
// One file may need both kinds of handle: fcntl(2) turns O_APPEND on and off, and the kernel writes
// pages of a shared mapping back to their offsets through any open file. A write of the other kind
// therefore gets a second handle, which the first such write opens, as the user who opened the
// file: the kernel does not report for whom it writes pages back.
#pragma once
#include <map>
#include <optional>
#include <vector>

#include "ros2s/fs/caller.h"
#include "ros2s/fs/file_system.h"

namespace ros2s::fuse {

class WriteHandles {
  public:
    explicit WriteHandles(fs::FileSystem& file_system) : file_system_(file_system) {}

    // `handle` was opened for writing by `user`. `appends`: with OpenFlags::append.
    void opened(fs::FileHandle handle, const fs::Caller& user, bool appends);
    // The handle for a write that appends, or that has an offset. Errors: those of open().
    Task<Result<fs::FileHandle>> find(fs::NodeId node, fs::FileHandle opened, bool appends);
    // Closes it, and the handle that find() opened for it.
    Task<Result<>> close(const Call& call, fs::FileHandle opened);

  private:
    struct Opened {
        bool appends = false;
        uint32_t uid = 0, gid = 0;
        std::vector<uint32_t> groups;
        std::optional<fs::FileHandle> second;
    };

    fs::FileSystem& file_system_;
    std::map<fs::FileHandle, Opened> opened_;
};

}  // namespace ros2s::fuse
