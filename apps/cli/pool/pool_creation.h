// Makes pools from command-line options: device files, written fully once, with progress. `up`,
// `pool create` and `pool grow` share it.
#pragma once
#include <string>
#include <vector>

#include "commands.h"
#include "ros2s/base/json.h"
#include "ros2s/pool/pool_directory.h"

namespace ros2s::cli {

// Errors: those of pool::create_pool(); invalid (the directory is in another pool's).
[[nodiscard]] Task<Result<pool::PoolDirectory>> create_pool(CommandContext context,
                                                            const UpOptions& options);

// Warns if the pool is in memory, and so lost when the machine stops.
void warn_of_memory(const Console& console, const pool::PoolDirectory& pool);

// "4 GiB on 1 device".
[[nodiscard]] std::string devices_text(const pool::PoolDirectory& pool);
[[nodiscard]] std::vector<Json> device_list(const pool::PoolDirectory& pool);

}  // namespace ros2s::cli
