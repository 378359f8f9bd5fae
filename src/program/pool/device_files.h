// The devices of a pool directory are files, NVMe namespaces or devdax. These functions choose the
// place of a new one, check the free space, create it and open it.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ros2s/base/random.h"
#include "ros2s/base/result.h"
#include "ros2s/device/block_device.h"
#include "ros2s/runtime/call.h"
#include "ros2s/runtime/environment.h"
#include "ros2s/runtime/task.h"

namespace ros2s::pool {

// A file and, if it is on another disk, the link to it in the pool's directory. Or the character
// device of an NVMe namespace or of persistent memory, and the link to that device.
struct DevicePath {
    std::string path;
    std::string link;        // empty: none
    uint64_t raw_bytes = 0;  // size of a raw device, all of which is used; 0: a file
};

// `elsewhere` is a directory or such a character device; empty: the pool's directory. A file in
// another directory gets a new name each time (name_elsewhere()).
[[nodiscard]] DevicePath device_path(const std::string& directory, const std::string& pool,
                                     size_t number, const std::string& elsewhere,
                                     const Secrets& secrets);

// The place of a new index, and its initial size.
struct IndexPath {
    std::string directory;
    uint64_t bytes = 0;  // 0: none is made
};

// Checks, before anything is written, that each file system has space for all its devices and the
// index. Errors: no_space, invalid (a device twice, or too small), and those of reading the
// directories.
[[nodiscard]] Result<> check_space(const std::vector<DevicePath>& places, uint64_t device_bytes,
                                   const IndexPath& index, Report& report);

// Makes the link and the file, and writes the whole file once. `progress` gets the bytes written. A
// raw device is not written. Its first blocks must be zeros; otherwise the error is `exists`.
[[nodiscard]] Task<Result<>> make_device(const Call& call, Environment environment,
                                         DevicePath place, uint64_t device_bytes, bool page_cache,
                                         std::function<void(uint64_t)> progress, Report& report);

// The type follows from the file that `path` names or links to. Errors: those of FileDevice::open
// and NvmeDevice::open.
[[nodiscard]] Task<Result<std::unique_ptr<device::BlockDevice>>> open_device(
    Environment environment, std::string path, bool page_cache, Report& report,
    bool read_only = false);
// The size of an existing device. Errors: those of stat(2).
[[nodiscard]] Result<uint64_t> device_bytes(const std::string& path);

}  // namespace ros2s::pool
