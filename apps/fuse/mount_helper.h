// Options as mount(8) has them. `ros2store-fuse -o OPTIONS` takes them, and so does the command
// line of mount(8): it runs /sbin/mount.ros2store URI MOUNT_POINT [-sfnv] [-o OPTIONS],
// which the package makes a link to this program. So `mount -t ros2store`, fstab and systemd's
// units work.
//
// Plain functions; any thread.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ros2s/base/result.h"

namespace ros2s::fuse {

// A command line of ros2store-fuse, with its own options instead of -o OPTIONS. Errors: invalid;
// the report names the option.
[[nodiscard]] Result<std::vector<std::string>> translate_mount_options(
    std::span<const char* const> arguments, Report& report);
// Of the program's own name.
[[nodiscard]] bool is_mount_helper(std::string_view program);
// The same command for ros2store-fuse, with the program's name; empty if mount(8) only tries its
// arguments (-f). Errors: invalid; the report names the option.
[[nodiscard]] Result<std::vector<std::string>> translate_mount_helper(
    std::span<const char* const> arguments, Report& report);

}  // namespace ros2s::fuse
