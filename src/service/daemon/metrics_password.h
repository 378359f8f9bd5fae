// Scrapers of a daemon's metrics give a password. It is the first line of a file.
#pragma once
#include <string>

#include "ros2s/base/result.h"

namespace ros2s::daemon {

// If the file does not exist, creates it with 128 random bits, readable by its user only. Blocks.
// Errors, with a sentence: denied (others can read or change it), invalid (an empty line), those of
// files.
[[nodiscard]] Result<std::string> metrics_password(const std::string& path, Report& report);

}  // namespace ros2s::daemon
