#include "mount.h"

namespace ros2s::daos {

int check(const dfs_t* dfs) noexcept {
    if (dfs == nullptr || dfs->is_unmounted) return EINVAL;
    return dfs->fs().mark.in_forked_child() ? EBADF : 0;
}

int check_writable(const dfs_t* dfs) noexcept {
    if (const int rc = check(dfs); rc != 0) return rc;
    return dfs->is_read_only() ? EPERM : 0;
}

void drop_user(dfs_t* dfs) {
    if (--dfs->users > 0) return;
    --dfs->container->mounts;
    delete dfs;
}

int set_attributes(ros2s_fs& fs, fs::NodeId node, const fs::SetAttributes& changes) {
    return errno_of(
        fs.run([&] { return fs.file_system().set_attributes(fs.call, node, changes); }));
}

}  // namespace ros2s::daos
