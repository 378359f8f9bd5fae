// Attributes of a node, and the system's struct stat.
#pragma once
#include <sys/stat.h>

#include "ros2s/fs/file_system.h"
#include "ros2s/runtime/time.h"

namespace ros2s::fs {

[[nodiscard]] inline Attributes attributes_of(NodeId node, const struct stat& status) noexcept {
    return {.node = node,
            .mode = status.st_mode,
            .links = static_cast<uint32_t>(status.st_nlink),
            .uid = status.st_uid,
            .gid = status.st_gid,
            .size = static_cast<uint64_t>(status.st_size),
            .bytes_used = static_cast<uint64_t>(status.st_blocks) * 512,
            .device = status.st_rdev,
            .accessed = to_wall_time(status.st_atim),
            .modified = to_wall_time(status.st_mtim),
            .changed = to_wall_time(status.st_ctim)};
}

// `io_bytes`: the size of reads and writes that programs should prefer.
[[nodiscard]] inline struct stat to_stat(const Attributes& attributes,
                                         blksize_t io_bytes) noexcept {
    struct stat status{};
    status.st_ino = attributes.node.value;
    status.st_mode = attributes.mode;
    status.st_nlink = attributes.links;
    status.st_uid = attributes.uid;
    status.st_gid = attributes.gid;
    status.st_rdev = attributes.device;
    status.st_size = static_cast<off_t>(attributes.size);
    status.st_blksize = io_bytes;
    status.st_blocks = static_cast<blkcnt_t>(attributes.bytes_used / 512);
    status.st_atim = to_timespec(attributes.accessed);
    status.st_mtim = to_timespec(attributes.modified);
    status.st_ctim = to_timespec(attributes.changed);
    return status;
}

}  // namespace ros2s::fs
