// Device files of a pool directory: where a new one goes, whether there is room, and making it.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ros2s/api/environment.h"
#include "ros2s/base/result.h"
#include "ros2s/runtime/call.h"
#include "ros2s/runtime/task.h"

namespace ros2s::api {

// The file and, where it lies on another disk, the link to it in the pool's directory.
struct DevicePlace {
    std::string path;
    std::string link;  // empty: none
};

// `elsewhere` empty: in the pool's directory itself.
[[nodiscard]] DevicePlace place_device(const std::string& directory, const std::string& pool,
                                       size_t number, const std::string& elsewhere);

// Where a new index goes, and what it takes at first.
struct IndexPlace {
    std::string directory;
    uint64_t bytes = 0;  // 0: none is made
};

// Before anything is written: room for all that share a file system, the index among them.
// Errors: no_space, exists, and those of looking at the directories.
[[nodiscard]] Result<> check_space(const std::vector<DevicePlace>& places, uint64_t device_bytes,
                                   const IndexPlace& index, Report& report);

// The link, and the file, written fully once. `progress` is called with bytes of this file.
[[nodiscard]] Task<Result<>> make_device(const Call& call, Environment environment,
                                         DevicePlace place, uint64_t device_bytes, bool page_cache,
                                         std::function<void(uint64_t)> progress, Report& report);

}  // namespace ros2s::api
