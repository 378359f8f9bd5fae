// WriteHandles: O_APPEND if the kernel caches nothing. The kernel's size of a file is then out of
// date, and so are the offsets of its appends. The file system appends itself, through a handle
// that was opened for that.
//
// One file may need both kinds of handle: fcntl(2) turns O_APPEND on and off, and the kernel writes
// pages of a shared mapping back to their offsets through any open file. A write of the other kind
// therefore gets a second handle, which the first such write opens.
#pragma once
#include <map>
#include <set>

#include "ros2s/fs/file_system.h"

namespace ros2s::fuse {

class WriteHandles {
  public:
    explicit WriteHandles(fs::FileSystem& file_system) : file_system_(file_system) {}

    // `handle` was opened with OpenFlags::append.
    void opened_to_append(fs::FileHandle handle) { appending_.insert(handle); }
    // The handle for a write that appends, or that has an offset. Errors: those of open().
    Task<Result<fs::FileHandle>> find(const Call& call, fs::NodeId node, fs::FileHandle opened,
                                      bool appends);
    // Closes it, and the handle that find() opened for it.
    Task<Result<>> close(const Call& call, fs::FileHandle opened);

  private:
    fs::FileSystem& file_system_;
    std::set<fs::FileHandle> appending_;
    std::map<fs::FileHandle, fs::FileHandle> second_;
};

}  // namespace ros2s::fuse
