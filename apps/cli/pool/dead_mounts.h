// Dead mounts: what a ros2store-fuse that was killed leaves in the kernel's table. Nobody has the
// pool open, but each use of the mount point answers "Transport endpoint is not connected", and
// only the table still tells whose it was: a mount's source is the container's URI. Source of the
// format: proc(5), /proc/PID/mountinfo.
#pragma once
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

// Those of ros2store-fuse, living or dead, in the order of the table. Lines that make no sense are
// left out.
[[nodiscard]] std::vector<TableMount> ros2store_mounts(std::string_view mountinfo);

// All mount points of the pool in `directory`, living or dead.
[[nodiscard]] std::vector<std::string> mounts_of(const std::string& directory);

// Those of them that are not among `dead`.
[[nodiscard]] std::vector<std::string> living_mounts(const std::string& directory,
                                                     const std::vector<std::string>& dead);

// Mount points of the pool in `directory` behind which no process is any more; `owner` is who has
// the pool open. Asks the kernel, and so blocks for moments.
[[nodiscard]] std::vector<std::string> dead_mounts(const std::string& directory,
                                                   const pool::OwnerRecord& owner);

}  // namespace ros2s::cli
