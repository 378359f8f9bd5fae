// The files of a pool directory, by name; and how all of them go.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "ros2s/base/result.h"

namespace ros2s::pool {

inline constexpr std::string_view config_name = "config.yaml";
inline constexpr std::string_view index_name = "index";
inline constexpr std::string_view owner_name = "owner";
// There while the pool is being made or removed: what is in the directory then is nobody's.
inline constexpr std::string_view half_made_name = "half-made";
// There while the pool grows: a line with the name of the device file that is being added.
inline constexpr std::string_view growing_name = "growing";
// There since an engine has served the pool: its clients may come again, and pin what they have
// open.
inline constexpr std::string_view served_name = "served";

[[nodiscard]] std::string device_name(size_t number);  // "device-0"
[[nodiscard]] bool is_device_name(std::string_view name);
[[nodiscard]] std::string in(const std::string& directory, std::string_view name);
[[nodiscard]] bool exists(const std::string& path);  // a dangling link does
// "cannot make the link DIR/device-1: …"
std::unexpected<Error> cannot(std::string_view do_what, const std::string& path, const Error& error,
                              Report& report);

// Names in the directory that no pool and no new file system (lost+found) explains.
[[nodiscard]] Result<std::vector<std::string>> foreign_names(const std::string& directory);

// Names in the directory that may hold a pool's data: device files and the index.
[[nodiscard]] Result<std::vector<std::string>> data_names(const std::string& directory);

// The file becomes `text`, whole or not at all, and durable. Errors: those of the file system.
[[nodiscard]] Result<> replace_file(const std::string& path, std::string_view text);
// Names made or removed in the directory are durable.
[[nodiscard]] Result<> sync_directory(const std::string& directory);

// Removes a device file, the file behind a link first, and what its making left. One that is not
// there is no error. Of a namespace the link alone goes.
[[nodiscard]] Result<> remove_device(const std::string& path);
// Removes every file of a pool but `owner`, device files behind links too; half-made goes last, so
// that a removal that is interrupted is gone on with. Errors: those of the file system.
[[nodiscard]] Result<> remove_pool_files(const std::string& directory);

}  // namespace ros2s::pool
