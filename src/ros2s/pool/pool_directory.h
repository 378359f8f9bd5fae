// A pool directory: where an embedded pool lives on this machine.
//
//     DIR/config.yaml   the pool's name and settings, with their documentation (config.h)
//     DIR/device-0 …    the device files; symbolic links where they lie on other disks, or to the
//                       character devices of NVMe namespaces (/dev/ng0n1)
//     DIR/index/        the engine's index
//     DIR/owner         who has it open (owner.h)
//
//     DIR/half-made     only while the pool is being made or removed
//     DIR/growing       only while a device file is being added (pool_growth.h)
//
// A directory is a pool when it has config.yaml and no half-made. What a creation or removal that
// was killed left is cleared by the next creation or removal.
//
// The calls here use the file system directly, and so block the core for moments.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ros2s/base/result.h"
#include "ros2s/pool/pool_config.h"
#include "ros2s/runtime/call.h"
#include "ros2s/runtime/environment.h"
#include "ros2s/runtime/os_reactor.h"
#include "ros2s/runtime/task.h"

namespace ros2s::pool {

struct PoolCreation {
    std::string directory;
    std::string pool = "pool";           // its name in URIs
    uint64_t bytes = uint64_t{4} << 30;  // over all device files together
    uint32_t devices = 1;                // 1 to 16
    // Other places for the device files, taken in turn: one per disk, no more than devices. Empty:
    // the directory itself.
    // One that is the character device of an NVMe namespace, or of persistent memory (devdax), is a
    // device by itself, used whole.
    std::vector<std::string> device_directories;
    std::string container = "main";  // made at once; empty: none
    PoolConfig config;               // what config.yaml says; its own `pool` is not looked at
    std::function<void(uint64_t done_bytes, uint64_t total_bytes)> progress;
};

// Of the NVMe namespace or the persistent memory whose character device `path` is, or links to;
// nothing where it is none.
[[nodiscard]] std::optional<uint64_t> raw_device_bytes(const std::string& path);

inline constexpr uint64_t pool_bytes_min = uint64_t{64} << 20;
inline constexpr uint32_t pool_devices_max = 16;

// Makes a ready pool: device files written fully once, formatted, opened, its first container
// created, closed. All or nothing: on failure, or when call.stop asks for it, what was made is
// removed again. Errors: exists (a pool is there, or the directory holds other files), no_space
// (checked beforehand), invalid (size, count, names), denied, io, cancelled.
[[nodiscard]] Task<Result<>> create_pool(const Call& call, Environment environment,
                                         const PoolCreation& creation, Report& report);

// Removes the pool's files, and the directory where nothing else is in it. Errors: not_found,
// busy (somebody has it open), denied, io.
[[nodiscard]] Result<> destroy_pool(const std::string& directory, Report& report);

// What is known without opening it.
struct PoolDirectory {
    std::string directory;  // absolute
    PoolConfig config;
    std::vector<std::string> devices;  // the device files, in order
    uint64_t device_bytes = 0;         // of all together
    // The device file of a growth that is under way or was interrupted, there or not, and none of
    // `devices`. Empty: none.
    std::string growing;
};
// Without its devices, of which one may be gone. Errors: not_found (no pool there), invalid
// (config.yaml), denied, io.
[[nodiscard]] Result<PoolDirectory> read_pool_settings(const std::string& directory,
                                                       Report& report);
// All of it. Errors: those of read_pool_settings(), and of a device.
[[nodiscard]] Result<PoolDirectory> read_pool_directory(const std::string& directory,
                                                        Report& report);

// What the pool's index takes on its disk now, beside the device files and bound by no limit: it
// grows with names, attributes and scattered writes. Whoever has the pool open may change it
// meanwhile. Errors: denied (it is its owner's), not_found, io.
[[nodiscard]] Result<uint64_t> index_disk_bytes(const PoolDirectory& pool);

// A reactor as the pool's settings want it; `options` has what they do not say. Errors: those of
// OsReactor::create; where the settings demand what this machine refuses, the report says so.
[[nodiscard]] Result<std::unique_ptr<OsReactor>> create_reactor(const PoolDirectory& pool,
                                                                Report& report,
                                                                OsReactorOptions options = {});

}  // namespace ros2s::pool
