// Superblocks: each device's description of the pool, in two copies (docs/formats/superblock.md).
// These functions determine the devices that belong together, and raise their generations. The
// generation shows whether a device was restored from an old copy
// (docs/decisions/0306).
//
// Used on the pool's core.
#pragma once
#include <array>
#include <memory>
#include <vector>

#include "ros2s/base/result.h"
#include "ros2s/device/block_device.h"
#include "ros2s/engine/format/superblock.h"
#include "ros2s/runtime/reactor.h"
#include "ros2s/runtime/task.h"

namespace ros2s::engine {

using Devices = std::vector<std::unique_ptr<device::BlockDevice>>;

[[nodiscard]] inline uint64_t blocks_of(const device::BlockDevice& device) {
    return device.size() / block_bytes;
}
[[nodiscard]] std::array<uint8_t, 32> identity_of(const device::BlockDevice& device);

// Writes both copies of the device superblock.device_number. Durable when it returns.
[[nodiscard]] Task<Result<>> write_superblocks(const Superblock& superblock,
                                               device::BlockDevice& device);
// The newest valid copy of one device. Errors, each with a sentence: io, not_found, corrupt,
// bad_version.
[[nodiscard]] Task<Result<Superblock>> read_superblock(device::BlockDevice& device, Report& report);

// Sorts the devices, given the superblock of each. Returns the newest superblock, which lists the
// devices of the pool. Errors, each with a sentence: invalid.
[[nodiscard]] Result<Superblock> match_devices(Devices& devices,
                                               const std::vector<Superblock>& found,
                                               Report& report);
// Checks that the map of the pool's space fits the memory: the number of a device's blocks comes
// from the medium, and a sparse file can be of any size. Errors, with a sentence: no_memory.
[[nodiscard]] Result<> check_space_map(const Superblock& superblock, uint64_t memory_bytes,
                                       Report& report);
// Compares the devices with their recorded identities. renew_superblocks() writes new ones. Errors,
// with a sentence: invalid.
[[nodiscard]] Result<> check_identities(const Devices& devices, Superblock& superblock,
                                        bool accept_copies, Report& report);

// Called before the pool is used, and after a regular close. First every device gets the next
// generation. Each superblock records it only when all devices have it. A crash between any two of
// these writes therefore leaves devices that fit together, and a device that was missing is
// detected later.
//
// A crash while the pool grew may have left copies that are torn or do not name the new device.
// Before the new device is used, each copy names it. Then no opening can omit it. The next growth
// overwrites one copy at a time, and the other copy stays valid.
[[nodiscard]] Task<Result<>> renew_superblocks(Reactor& reactor, const Devices& devices,
                                               Superblock& superblock, Report& report);

}  // namespace ros2s::engine
