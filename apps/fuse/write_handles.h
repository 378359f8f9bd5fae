// WriteHandles: O_APPEND where the kernel caches nothing. Its idea of a file's size is then old, so
// that the offsets of its appends are wrong: the file system appends by itself, through a handle
// that was opened for it.
//
// One file may need both kinds of handle: fcntl(2) turns O_APPEND on and off, and the kernel writes
// pages of a shared mapping back to their places through any open file. So a write of the other
// kind than its file was opened for has a second handle, opened when the first such write comes.
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
    // Closes it, and what find() opened for it.
    Task<Result<>> close(const Call& call, fs::FileHandle opened);

  private:
    fs::FileSystem& file_system_;
    std::set<fs::FileHandle> appending_;
    std::map<fs::FileHandle, fs::FileHandle> second_;
};

}  // namespace ros2s::fuse
