// A pool directory has the files of an embedded pool on this machine.
//
//     DIR/config.yaml   the pool's name and settings, with their documentation (config.h)
//     DIR/device-0 …    the device files; symbolic links if they are on other disks, where each has
//                       a unique name, or to the character devices of NVMe namespaces (/dev/ng0n1)
//     DIR/index/        the engine's index
//     DIR/owner         the process that has it open (owner.h)
//     DIR/owner.sock    its socket, if others may use the pool through it (pool_service.h)
//     DIR/tenants.yaml  the pool's tenants, if it has any
//
//     DIR/half-made     only while the pool is being made or removed
//     DIR/growing       only while a device file is being added (pool_growth.h)
//
// A directory is a pool if it has config.yaml and no half-made. The next creation or removal clears
// what a killed one left.
//
// The calls here use the file system directly, and so block the core for a short time.
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
    // Other locations for the device files, used in turn: one per disk, at most one per device.
    // Empty: the directory itself. The character device of an NVMe namespace, or of persistent
    // memory (devdax), is one device, and is used completely.
    std::vector<std::string> device_directories;
    std::string container = "main";  // created with the pool; empty: none
    PoolConfig config;               // the content of config.yaml; its own `pool` is ignored
    std::function<void(uint64_t done_bytes, uint64_t total_bytes)> progress;
};

// The size of the NVMe namespace or the persistent memory whose character device `path` is, or
// links to. Empty if it is neither.
[[nodiscard]] std::optional<uint64_t> raw_device_bytes(const std::string& path);

// The pool's tenants (tenancy/tenant.h), which the engine that serves the pool keeps.
inline constexpr std::string_view tenants_name = "tenants.yaml";

inline constexpr uint64_t pool_bytes_min = uint64_t{64} << 20;
inline constexpr uint32_t pool_devices_max = 16;

// Makes a pool that is ready for use: writes the device files fully once, formats and opens them,
// creates the first container, and closes. All or nothing: on failure, or if call.stop is
// requested, it removes what it made. Errors: exists (there is a pool, or the directory holds other
// files), no_space (checked before), invalid (size, count, names), denied, io, cancelled.
[[nodiscard]] Task<Result<>> create_pool(const Call& call, Environment environment,
                                         const PoolCreation& creation, Report& report);

// Removes the pool's files, and the directory if it holds nothing else. `also` removes other files
// there that are useless without the pool. It is called when the pool can no longer be opened; if
// it fails, with a sentence of its own, the pool is half-made. Errors: not_found, busy (a process
// has it open), denied, io, those of `also`.
[[nodiscard]] Result<> destroy_pool(const std::string& directory, Report& report,
                                    const std::function<Result<>()>& also = {});

// The properties of a pool that can be read without opening it.
struct PoolDirectory {
    std::string directory;  // absolute
    PoolConfig config;
    std::vector<std::string> devices;  // the device files, in order
    uint64_t device_bytes = 0;         // of all together
    // Nothing may be written to it: its medium is mounted read-only, or the opener only reads.
    bool read_only = false;
    // The device file of a growth that is in progress or was interrupted. It may not exist yet, and
    // is not one of `devices`. Empty: none.
    std::string growing;
};
// The sentence for a directory that cannot be looked at for the errno `cause`.
[[nodiscard]] std::string cannot_open(const std::string& directory, int cause);
// Does not read the devices, one of which may be missing. Errors: not_found (no pool there),
// invalid (config.yaml), denied, io.
[[nodiscard]] Result<PoolDirectory> read_pool_settings(const std::string& directory,
                                                       Report& report);
// Includes the devices. Errors: those of read_pool_settings(), and of a device.
[[nodiscard]] Result<PoolDirectory> read_pool_directory(const std::string& directory,
                                                        Report& report);

// The space that the pool's index uses on its disk now, in addition to the device files. It has no
// limit: it grows with names, attributes and scattered writes. The owner may change it meanwhile.
// Errors: denied (it is its owner's), not_found, io.
[[nodiscard]] Result<uint64_t> index_disk_bytes(const PoolDirectory& pool);

// A reactor with the pool's settings; `options` has the values that they do not set. Errors: those
// of OsReactor::create. If the settings require something that this machine refuses, the report
// names it.
[[nodiscard]] Result<std::unique_ptr<OsReactor>> create_reactor(const PoolDirectory& pool,
                                                                Report& report,
                                                                OsReactorOptions options = {});

}  // namespace ros2s::pool
