// What a mount was asked to keep and may not have made durable yet, as the mount says.
#pragma once
#include <optional>
#include <string>

#include "ros2s/base/json.h"
#include "ros2s/fs/unsynced.h"

namespace ros2s::cli {

// Of the mount that has the path. Blocks while its servers do not answer. Empty: it does not say,
// or each of its changes is durable at once.
[[nodiscard]] std::optional<fs::UnsyncedAnswer> unsynced_of(const std::string& path);
// "12 changes (48 KiB) not durable yet, the first for 320 ms", "everything is durable".
[[nodiscard]] std::string describe(const fs::UnsyncedAnswer& unsynced);
[[nodiscard]] Json value_of(const fs::UnsyncedAnswer& unsynced);

}  // namespace ros2s::cli
