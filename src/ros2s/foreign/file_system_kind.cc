// The kind of file system of a directory, from the kernel's list of mounts (proc_pid_mountinfo(5)).
#include <fcntl.h>
#include <sys/stat.h>

#include <fstream>
#include <sstream>

#include "descriptor.h"
#include "local_fs.h"

namespace ros2s::foreign {

Result<std::string> file_system_kind(const std::string& path) {
    struct statx status{};
    ROS2S_TRY(checked(::statx(AT_FDCWD, path.c_str(), 0, STATX_MNT_ID, &status)));
    if ((status.stx_mask & STATX_MNT_ID) == 0) return fail(Code::not_found);
    std::ifstream mounts("/proc/self/mountinfo");
    for (std::string line; std::getline(mounts, line);) {
        std::istringstream words(line);
        uint64_t number = 0;
        if (!(words >> number) || number != status.stx_mnt_id) continue;
        // The number of fields before the hyphen differs.
        for (std::string word; words >> word;) {
            if (word == "-" && words >> word) return word;
        }
    }
    return fail(Code::not_found);
}

}  // namespace ros2s::foreign
