// The kind of file system of a directory, from the kernel's list of mounts (proc_pid_mountinfo(5)).
#include <fcntl.h>
#include <sys/stat.h>

#include <fstream>

#include "descriptor.h"
#include "open_local_directory.h"
#include "ros2s/base/mount_table.h"

namespace ros2s::foreign {

Result<std::string> file_system_kind(const std::string& path) {
    struct statx status{};
    ROS2S_TRY(checked(::statx(AT_FDCWD, path.c_str(), 0, STATX_MNT_ID, &status)));
    if ((status.stx_mask & STATX_MNT_ID) == 0) return fail(Code::not_found);
    std::ifstream table("/proc/self/mountinfo");
    for (MountEntry& each : read_mounts(table)) {
        if (each.id == status.stx_mnt_id) return std::move(each.kind);
    }
    return fail(Code::not_found);
}

}  // namespace ros2s::foreign
