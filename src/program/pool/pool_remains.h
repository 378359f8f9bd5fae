// The existing files of a pool that may be incomplete, for listing and removing pools. Opening a
// pool uses read_pool_directory() instead, which refuses an incomplete one.
//
// The calls here use the file system directly and block the core for a short time.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "ros2s/base/result.h"

namespace ros2s::pool {

struct PoolRemains {
    std::string directory;   // absolute
    std::string pool;        // its name; "": unknown
    uint64_t bytes = 0;      // of the existing device files
    bool half_made = false;  // its creation or removal was interrupted, or is in progress
    // Files that are known to be missing, with the target of a link: "device-1 (a link to
    // /mnt/b/x)". If the last devices are missing, only the contents of the others show it, and
    // those are not read here.
    std::vector<std::string> missing;
    std::string trouble;  // why it cannot be opened, in a sentence; "": no reason found
};

// A directory is a pool's if it has a pool's config.yaml, if it is half-made, or if device files
// are in it. Errors: not_found (none of this), denied, io.
[[nodiscard]] Result<PoolRemains> look_at_remains(const std::string& directory, Report& report);

}  // namespace ros2s::pool
