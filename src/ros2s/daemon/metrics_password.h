// The password that scrapers of a daemon's metrics present: the first line of a file.
#pragma once
#include <string>

#include "ros2s/base/result.h"

namespace ros2s::daemon {

// Where there is no file, makes one that its user alone can read, with 128 random bits. Blocks.
// Errors, with a sentence: denied (others can read or change it), invalid (an empty line), those of
// files.
[[nodiscard]] Result<std::string> metrics_password(const std::string& path, Report& report);

}  // namespace ros2s::daemon
