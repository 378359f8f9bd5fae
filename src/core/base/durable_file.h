// Small files that are replaced as a whole. Blocking system calls; any thread.
#pragma once
#include <string>
#include <string_view>

#include "ros2s/base/descriptor.h"
#include "ros2s/base/result.h"

namespace ros2s {

// From the descriptor's position to the end of its file. Errors: those of the file system;
// too_large (over `bytes_max`).
[[nodiscard]] Result<std::string> read_all(const Descriptor& file, size_t bytes_max);
// Errors: those of the file system; not_found; too_large (over `bytes_max`).
[[nodiscard]] Result<std::string> read_file(const std::string& path, size_t bytes_max);
// Replaces the file's content atomically and durably, by way of PATH.new. `mode`: its permission
// bits, less the umask. Errors: those of the file system.
[[nodiscard]] Result<> replace_file(const std::string& path, std::string_view text,
                                    uint32_t mode = 0644);
// The directory that has the name; "." for a path without a slash.
[[nodiscard]] std::string parent_of(const std::string& path);
// Makes created and removed names in the directory durable.
[[nodiscard]] Result<> sync_directory(const std::string& directory);

}  // namespace ros2s
