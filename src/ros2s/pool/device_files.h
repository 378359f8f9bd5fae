// Devices of a pool directory, files, NVMe namespaces or devdax: where a new one goes, whether
// there is room, making and opening it.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ros2s/base/result.h"
#include "ros2s/device/block_device.h"
#include "ros2s/runtime/call.h"
#include "ros2s/runtime/environment.h"
#include "ros2s/runtime/task.h"

namespace ros2s::pool {

// The file and, where it lies on another disk, the link to it in the pool's directory. Or the
// character device of an NVMe namespace or of persistent memory, and the link to that.
struct DevicePlace {
    std::string path;
    std::string link;        // empty: none
    uint64_t raw_bytes = 0;  // of a device, which is used whole; 0: a file
};

// `elsewhere` is a directory, or such a character device; empty: in the pool's directory
// itself.
[[nodiscard]] DevicePlace place_device(const std::string& directory, const std::string& pool,
                                       size_t number, const std::string& elsewhere);

// Where a new index goes, and what it takes at first.
struct IndexPlace {
    std::string directory;
    uint64_t bytes = 0;  // 0: none is made
};

// Before anything is written: room for all that share a file system, the index among them.
// Errors: no_space, exists, invalid (a device twice, or too small), and those of looking at the
// directories.
[[nodiscard]] Result<> check_space(const std::vector<DevicePlace>& places, uint64_t device_bytes,
                                   const IndexPlace& index, Report& report);

// The link, and the file, written fully once. `progress` is called with bytes of this file. A
// raw device is not written, but it must be empty: its first blocks are zeros, or `exists`.
[[nodiscard]] Task<Result<>> make_device(const Call& call, Environment environment,
                                         DevicePlace place, uint64_t device_bytes, bool page_cache,
                                         std::function<void(uint64_t)> progress, Report& report);

// By what `path` is, or links to. Errors: those of FileDevice::open and NvmeDevice::open.
[[nodiscard]] Task<Result<std::unique_ptr<device::BlockDevice>>> open_device(
    Environment environment, std::string path, bool page_cache, Report& report);
// Of a device that exists. Errors: those of stat(2).
[[nodiscard]] Result<uint64_t> device_bytes(const std::string& path);

}  // namespace ros2s::pool
