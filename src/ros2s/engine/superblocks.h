// Superblocks: what each device of a pool says of the pool, in two copies
// (docs/formats/superblock.md). Which devices belong together is read here, and their generations
// are counted on: a device that was restored from an old copy is found by them
// (docs/decisions/0307-generations-of-devices.md).
//
// Used on the pool's core.
#pragma once
#include <array>
#include <memory>
#include <vector>

#include "commit_rules.h"
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

// Both copies of one device, which superblock.device_number names; durable when it returns.
[[nodiscard]] Task<Result<>> write_superblocks(const Superblock& superblock,
                                               device::BlockDevice& device);
// The newest valid copy of one device. Errors, each with a sentence: io, not_found, corrupt,
// bad_version.
[[nodiscard]] Task<Result<Superblock>> read_superblock(device::BlockDevice& device, Report& report);

// Puts the devices in their order, given what was read of each. The newest superblock says which
// belong to the pool; it is returned. Errors, each with a sentence: invalid.
[[nodiscard]] Result<Superblock> match_devices(Devices& devices,
                                               const std::vector<Superblock>& found,
                                               const CommitRules& rules, Report& report);
// Compares the devices with what was recorded of them. What is new is for renew_superblocks() to
// write. Errors, with a sentence: invalid.
[[nodiscard]] Result<> check_identities(const Devices& devices, Superblock& superblock,
                                        bool accept_copies, Report& report);

// The pool is about to be used, or was closed in good order. First every device gets the next
// generation, and only when all have it, the word that they do: so a crash between any two of these
// writes leaves devices that fit together, and a device that was not there is known from now on.
//
// A crash while the pool grew may have left copies that are torn, or that know nothing of the new
// device. Before that is used each copy names it: no opening may go without it then, and the next
// growth, which overwrites one copy at a time, finds the other one whole.
[[nodiscard]] Task<Result<>> renew_superblocks(Reactor& reactor, const Devices& devices,
                                               Superblock& superblock, const CommitRules& rules,
                                               Report& report);

}  // namespace ros2s::engine
