// Growth: one more device file for an existing pool.
//
//     DIR/growing names the file ─ the file is written ─ the engine adds it ─ DIR/growing is
//     removed
//
// If it is killed at any point, the next opening finishes or undoes the growth. If no older device
// lists the new one, the file is removed. Otherwise it belongs to the pool. `DIR/growing`
// distinguishes such a file from a device of the pool that lost its contents.
#pragma once
#include <cstdint>
#include <functional>
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
    // The place of the file, with a link to it in the pool's directory, or the character device of
    // an NVMe namespace, which is used completely. Empty: the pool's directory.
    std::string device_directory;
    // Called for the bytes of the new file, and once more when the pool has added it.
    std::function<void(uint64_t done_bytes, uint64_t total_bytes)> progress;
};

// Adds a device file durably. If it is refused or stopped, the pool stays as it was. Errors: those
// of EmbeddedPool::open, including busy; invalid (the size), too_large (it has pool_devices_max
// already), no_space (checked before), read_only, exists, denied, io, cancelled.
[[nodiscard]] Task<Result<>> grow_pool(const Call& call, Environment environment, PoolGrowth growth,
                                       Report& report);

}  // namespace ros2s::pool
