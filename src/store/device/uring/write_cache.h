// Whether a disk has a write cache that loses its contents with the power, and that a flush
// empties.
#pragma once
#include <sys/types.h>

#include <string>

namespace ros2s::device {

// `disk`: of a file's status, also a partition's. True if the kernel does not say. `sysfs` has an
// entry MAJOR:MINOR for each block device (Documentation/ABI/stable/sysfs-block, write_cache).
[[nodiscard]] bool has_write_cache(dev_t disk, const std::string& sysfs = "/sys/dev/block");

}  // namespace ros2s::device
