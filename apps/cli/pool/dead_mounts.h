// Dead mounts: entries of a killed ros2store-fuse in the kernel's table. The pool is not open any
// more, but each use of the mount point fails with "Transport endpoint is not connected". Only the
// table tells which pool it was: a mount's source is the container's URI. Source of the format:
// proc(5), /proc/PID/mountinfo.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ros2s/pool/owner.h"

namespace ros2s::cli {

// One line of the table.
struct TableMount {
    std::string mount_point;
    std::string source;
    friend bool operator==(const TableMount&, const TableMount&) = default;
};

// The mounts of ros2store-fuse, living or dead, in the order of the table. Lines that cannot be
// parsed are ignored.
[[nodiscard]] std::vector<TableMount> ros2store_mounts(std::string_view mountinfo);

// All mount points of the pool in `directory`, living or dead.
[[nodiscard]] std::vector<std::string> mounts_of(const std::string& directory);

// A process in another mount namespace in which the pool is mounted. Whoever creates a namespace
// copies the mounts; the copy lives on when the original is unmounted, and so does its server.
struct MountCopy {
    uint32_t pid = 0;
    std::string program;
    std::string mount_point;  // as that process sees it
};
// The first one in /proc that this user may look at. Blocks for a short time.
[[nodiscard]] std::optional<MountCopy> copy_of_mount(const std::string& directory);

// Those that are not among `dead`.
[[nodiscard]] std::vector<std::string> living_mounts(const std::string& directory,
                                                     const std::vector<std::string>& dead);

// Mount points of the pool in `directory` whose process has ended; `owner` is the pool's current
// owner. Asks the kernel, and so blocks for a short time.
[[nodiscard]] std::vector<std::string> dead_mounts(const std::string& directory,
                                                   const pool::OwnerRecord& owner);

}  // namespace ros2s::cli
