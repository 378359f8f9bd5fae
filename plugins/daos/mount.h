// A mount of libdfs: the FileSystem of a container.
//
// Thread rule: any thread.
#pragma once
#include <atomic>
#include <memory>
#include <string>

#include "daos_fs.h"
#include "pools.h"
#include "ros2s/api/c/handles.h"

struct dfs {
    std::shared_ptr<ros2s::daos::Container> container;
    int flags = 0;  // O_RDONLY or O_RDWR
    ros2s::daos::ContainerSettings settings;
    std::string prefix;
    // An unmounted file system lives as long as its objects: programs may unmount before they
    // release them.
    std::atomic<bool> is_unmounted = false;
    std::atomic<uint32_t> users = 1;  // open objects; 1 for the mount

    [[nodiscard]] ros2s_fs& fs() const { return *container->fs; }
    [[nodiscard]] bool is_read_only() const {
        return (flags & O_ACCMODE) == O_RDONLY || container->is_read_only();
    }
};

namespace ros2s::daos {

// Errno, positive. 0 for success.
[[nodiscard]] inline int errno_of(const Error& error) noexcept { return to_errno(error); }
template <class T>
[[nodiscard]] int errno_of(const Result<T>& result) noexcept {
    return result ? 0 : to_errno(result.error());
}

// 0, or the errno of a mount that cannot be used: it is null, unmounted, or another process's.
[[nodiscard]] int check(const dfs_t* dfs) noexcept;
// Also refuses a read-only mount.
[[nodiscard]] int check_writable(const dfs_t* dfs) noexcept;
// Drops the reference of one user. The last one ends the mount.
void drop_user(dfs_t* dfs);

int set_attributes(ros2s_fs& fs, fs::NodeId node, const fs::SetAttributes& changes);

}  // namespace ros2s::daos
