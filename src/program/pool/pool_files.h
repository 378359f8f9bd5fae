// This header names the files in a pool directory, and removes them.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ros2s/base/durable_file.h"
#include "ros2s/base/result.h"

namespace ros2s::pool {

inline constexpr std::string_view config_name = "config.yaml";
inline constexpr size_t config_bytes_max = size_t{1} << 20;  // config::parse() takes no more
inline constexpr std::string_view index_name = "index";
inline constexpr std::string_view owner_name = "owner";
// The owner's socket (pool_service.h). It stays when the owner is killed.
inline constexpr std::string_view service_name = "owner.sock";
// Exists while the pool is being made or removed. The other files then belong to no pool.
inline constexpr std::string_view half_made_name = "half-made";
// Exists while the pool grows. It has one line: the name of the device file that is being added.
inline constexpr std::string_view growing_name = "growing";
// The list of the clients of an engine that may have files open (docs/formats/served.md).
inline constexpr std::string_view served_name = "served";
// The keys with which that engine signs capabilities (capability/issuer.h).
inline constexpr std::string_view capability_keys_name = "capability.keys";

[[nodiscard]] std::string device_name(size_t number);  // "device-0"
[[nodiscard]] bool is_device_name(std::string_view name);
// The name of a device file in another directory: "ros2store-POOL-device-0-0123456789abcdef". The
// number `unique` is random. So no two pools ever use one name, and a link of a pool whose creation
// or removal was interrupted never leads to a file of another pool.
[[nodiscard]] std::string name_elsewhere(const std::string& pool, size_t number, uint64_t unique);
[[nodiscard]] std::string in(const std::string& directory, std::string_view name);
[[nodiscard]] bool exists(const std::string& path);  // true for a dangling link
// Its file system is mounted read-only, or became so by an error: the pool can only be read.
[[nodiscard]] bool is_on_read_only_medium(const std::string& directory);
// "cannot make the link DIR/device-1: …"
std::unexpected<Error> cannot(std::string_view do_what, const std::string& path, const Error& error,
                              Report& report);

// Names in the directory that belong neither to a pool nor to a new file system (lost+found).
[[nodiscard]] Result<std::vector<std::string>> foreign_names(const std::string& directory);

// Names in the directory that may hold a pool's data: device files and the index.
[[nodiscard]] Result<std::vector<std::string>> data_names(const std::string& directory);

enum class Removal {
    complete,   // of a device that the pool uses
    unfinished  // of what an interrupted creation or growth left
};
// Removes a device file (if it is a link, first the file that it leads to) and leftovers of its
// creation. A missing file is not an error. For a namespace only the link is removed. So it is if
// the device is unfinished and its file has no name of name_elsewhere(): earlier builds gave the
// same name to files of several pools, and it may be another pool's file.
[[nodiscard]] Result<> remove_device(const std::string& path, Removal removal);
// Removes every file of a pool except `owner`, also the device files that links lead to. half-made
// is removed last, so that an interrupted removal can be continued. Errors: those of the file
// system.
[[nodiscard]] Result<> remove_pool_files(const std::string& directory);

}  // namespace ros2s::pool
