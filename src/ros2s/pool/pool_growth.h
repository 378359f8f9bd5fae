// Growth: one more device file for a pool that exists.
//
//     DIR/growing names the file ─ the file is written ─ the engine takes it in ─ DIR/growing goes
//
// Killed anywhere between, the next opening settles it: while no older device knows of the new one
// the file is removed, and from then on it belongs to the pool. `DIR/growing` is what tells such a
// file from a device of the pool that lost its contents.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "ros2s/base/result.h"
#include "ros2s/pool/pool_directory.h"
#include "ros2s/runtime/call.h"
#include "ros2s/runtime/environment.h"
#include "ros2s/runtime/task.h"

namespace ros2s::pool {

struct PoolGrowth {
    std::string directory;
    uint64_t bytes = 0;  // of the new device file; at least pool_bytes_min
    // Where the file goes, with a link to it in the pool's directory, or the character device of an
    // NVMe namespace, used whole. Empty: into that itself.
    std::string device_directory;
    // Of the new file, and once more when the pool has taken it in.
    std::function<void(uint64_t done_bytes, uint64_t total_bytes)> progress;
};

// Adds a device file, and is durable when it returns. Refused or stopped, it leaves the pool as it
// was. Errors: those of EmbeddedPool::open, busy among them; invalid (the size), too_large (it has
// pool_devices_max already), no_space (checked beforehand), read_only, exists, denied, io,
// cancelled.
[[nodiscard]] Task<Result<>> grow_pool(const Call& call, Environment environment, PoolGrowth growth,
                                       Report& report);

}  // namespace ros2s::pool
