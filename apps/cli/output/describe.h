// The form of attributes: for people as in `ls -l` and `stat`, and as JSON.
#pragma once
#include <string>
#include <string_view>

#include "ros2s/base/json.h"
#include "ros2s/fs/file_system.h"

namespace ros2s::cli {

// "-rw-r--r--"
[[nodiscard]] std::string mode_text(mode_t mode);
// "regular file", "directory", …
[[nodiscard]] std::string_view type_text(mode_t mode);
// The name, or the number if there is none.
[[nodiscard]] std::string user_text(uid_t uid);
[[nodiscard]] std::string group_text(gid_t gid);
// "2026-11-20 09:10", in the local time zone; `seconds` adds them.
[[nodiscard]] std::string time_text(WallTime time, bool seconds = false);
// `link_target`: for symbolic links.
[[nodiscard]] Json attributes_value(std::string_view path, const fs::Attributes& attributes,
                                    std::string_view link_target = {});

}  // namespace ros2s::cli
