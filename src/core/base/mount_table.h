// The mounts of a process, as the kernel lists them. Source of the format: proc(5),
// /proc/PID/mountinfo.
#pragma once
#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

namespace ros2s {

struct MountEntry {
    uint64_t id = 0;     // as in statx(2)
    std::string device;  // "0:53"
    std::string mount_point;
    std::string kind;    // "fuse.ros2store"
    std::string source;  // what was mounted: a device, or the text that the file system chose
};

// Of two mounts on the same directory, the later one is visible. Ignores lines that it cannot
// parse.
[[nodiscard]] std::vector<MountEntry> read_mounts(std::istream& mountinfo);
// The visible mount of this process on exactly this path. No kind: there is none.
[[nodiscard]] MountEntry mounted_on(const std::string& path);

}  // namespace ros2s
