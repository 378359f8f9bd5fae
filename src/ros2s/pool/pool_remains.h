// What is there of a pool, whatever it has lost: for those who list and remove pools. Whoever opens
// one reads it with read_pool_directory(), which refuses what is not whole.
//
// The calls here use the file system directly, and so block the core for moments.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "ros2s/base/result.h"

namespace ros2s::pool {

struct PoolRemains {
    std::string directory;   // absolute
    std::string pool;        // its name; "": nothing here says it
    uint64_t bytes = 0;      // of the device files that are there
    bool half_made = false;  // its making or removal was interrupted, or is under way
    // What is known to be gone, with where a link leads to: "device-1 (a link to /mnt/b/x)". That
    // the last of the devices are gone only the others' content says, which is not looked at here.
    std::vector<std::string> missing;
    std::string trouble;  // why it cannot be opened, in a sentence; "": nothing is seen
};

// A directory is a pool's if its config.yaml says so, if it is half-made, or if device files are in
// it. Errors: not_found (none of this), denied, io.
[[nodiscard]] Result<PoolRemains> look_at_remains(const std::string& directory, Report& report);

}  // namespace ros2s::pool
