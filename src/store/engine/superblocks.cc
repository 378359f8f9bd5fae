#include "superblocks.h"

#include <fmt/format.h>

#include <algorithm>

#include "ros2s/base/bytes.h"
#include "ros2s/engine/rules/commit_rules.h"
#include "ros2s/runtime/nursery.h"

namespace ros2s::engine {

Task<Result<>> write_superblocks(const Superblock& superblock, device::BlockDevice& device) {
    AlignedBuffer block(block_bytes);
    encode(superblock, block.bytes());
    const uint64_t last = superblock.devices[superblock.device_number].blocks - 1;
    // One after the other: at each moment one of the two is valid.
    ROS2S_CO_TRY(co_await device.write(0, block.bytes()));
    ROS2S_CO_TRY(co_await device.flush());
    ROS2S_CO_TRY(co_await device.write(last * block_bytes, block.bytes()));
    co_return co_await device.flush();
}

Task<Result<Superblock>> read_superblock(device::BlockDevice& device, Report& report) {
    AlignedBuffer block(block_bytes);
    std::optional<Superblock> newest;
    Error worst{Code::not_found};
    for (const uint64_t at : {uint64_t{0}, blocks_of(device) - 1}) {
        const Result<> read = co_await device.read(at * block_bytes, block.bytes());
        if (!read) {
            co_return report.fail(read.error(), "{}: reading its superblock failed: {}",
                                  device.name(), describe(read.error()));
        }
        const Result<Superblock> found = decode_superblock(block.bytes());
        if (found) {
            if (!newest || found->age() > newest->age()) newest = *found;
        } else if (found.error().code != Code::not_found) {
            worst = found.error();
        }
    }
    if (newest) {
        const uint64_t expected = newest->devices[newest->device_number].blocks;
        if (expected > blocks_of(device)) {
            co_return report.fail(Code::corrupt,
                                  "{}: it has {} bytes, and had {} when the pool was made: it was "
                                  "truncated. Restore it from a copy",
                                  device.name(), device.size(), expected * block_bytes);
        }
        co_return *newest;
    }
    if (worst.code == Code::bad_version) {
        co_return report.fail(worst,
                              "{}: pool format version {} or a feature of it is not known to this "
                              "program. Use the version of ros2store that wrote it, or a newer one",
                              device.name(), worst.detail);
    }
    if (worst.code == Code::corrupt) {
        co_return report.fail(
            worst, "{}: both copies of its superblock are damaged. Restore the device from a copy",
            device.name());
    }
    co_return report.fail(worst,
                          "{}: this is not a device of a ros2store pool. Make a pool with "
                          "`ros2store up`, or name the right device",
                          device.name());
}

namespace {

constexpr size_t absent = SIZE_MAX;

// `places`: by device number, its index in `devices`.
std::string missing_devices(const Superblock& pool, const Devices& devices,
                            const std::vector<size_t>& places) {
    std::string missing, present;
    for (size_t number = 0; number < places.size(); ++number) {
        const bool here = places[number] != absent;
        std::string& list = here ? present : missing;
        if (!list.empty()) list += ", ";
        list += here ? devices[places[number]]->name()
                     : fmt::format("device-{} ({})", number, pool.devices[number].uuid.to_string());
    }
    return fmt::format(
        "pool {} has {} devices; missing: {}; here: {}. Mount the disk of the missing devices, "
        "or put the file back, or a link to it, from a copy; nothing was changed",
        pool.pool.to_string(), places.size(), missing, present);
}

}  // namespace

Result<Superblock> match_devices(Devices& devices, const std::vector<Superblock>& found,
                                 Report& report) {
    const auto newest_at = std::ranges::max_element(found, {}, &Superblock::age);
    const Superblock& newest = *newest_at;
    const std::string pool = newest.pool.to_string();
    std::vector<size_t> places(newest.devices.size(), absent);
    for (size_t i = 0; i < found.size(); ++i) {
        const std::string& name = devices[i]->name();
        const uint32_t number = found[i].device_number;
        if (found[i].pool != newest.pool) {
            const auto other = static_cast<size_t>(newest_at - found.begin());
            return report.fail(Code::invalid,
                               "{} belongs to pool {}, {} to pool {}. Name the devices of one pool",
                               name, found[i].pool.to_string(), devices[other]->name(), pool);
        }
        if (number >= places.size() ||
            newest.devices[number].uuid != found[i].devices[number].uuid ||
            newest.devices[number].blocks != found[i].devices[number].blocks) {
            return report.fail(Code::invalid, "{} is no longer a device of pool {}", name, pool);
        }
        if (found[i].generation < newest.reached_generation && rules.refuse_old_copies) {
            return report.fail(
                Code::invalid,
                "{} is device {} of pool {} as it was at generation {}; since then all devices "
                "were at generation {}. It was restored from an old copy, and what was written "
                "later is not on it. Attach the device that the pool was last used with, or "
                "restore all devices and the index from copies of one moment; nothing was changed",
                name, number, pool, found[i].generation, newest.reached_generation);
        }
        if (places[number] != absent) {
            return report.fail(
                Code::invalid,
                "{} and {} are both device {} of pool {}: one is a copy. Name each device once",
                devices[places[number]]->name(), name, number, pool);
        }
        places[number] = i;
    }
    if (std::ranges::count(places, absent) > 0) {
        return report.fail(Code::invalid, missing_devices(newest, devices, places));
    }
    Devices ordered;
    for (const size_t place : places) ordered.push_back(std::move(devices[place]));
    devices = std::move(ordered);
    Superblock superblock = newest;
    superblock.device_number = 0;
    return superblock;
}

std::array<uint8_t, 32> identity_of(const device::BlockDevice& device) {
    const device::DeviceIdentity identity = device.identity();
    std::array<uint8_t, 32> bytes{};
    bytes[0] = static_cast<uint8_t>(identity.kind);
    std::ranges::copy(identity.bytes, bytes.begin() + 1);
    return bytes;
}

namespace {

device::DeviceIdentity identity_in(const std::array<uint8_t, 32>& bytes) {
    device::DeviceIdentity identity;
    identity.kind = static_cast<device::DeviceIdentity::Kind>(bytes[0]);
    std::copy_n(bytes.begin() + 1, identity.bytes.size(), identity.bytes.begin());
    return identity;
}

// Of engine.memory. The map has two bits for each block of the devices (space.h).
constexpr uint64_t space_map_shares_max = 16;

}  // namespace

Result<> check_space_map(const Superblock& superblock, uint64_t memory_bytes, Report& report) {
    uint64_t blocks = 0;
    for (const Superblock::Device& device : superblock.devices) blocks += device.blocks;
    const uint64_t bytes = blocks / 4;
    if (bytes / space_map_shares_max <= memory_bytes) return {};
    return report.fail(
        Code::no_memory,
        "the pool's devices have {} blocks of 4 KiB. Their map needs {} MiB of "
        "memory, more than {} times the {} MiB of engine.memory. Raise engine.memory "
        "in config.yaml; nothing was changed",
        blocks, bytes >> 20, space_map_shares_max, memory_bytes >> 20);
}

Result<> check_identities(const Devices& devices, Superblock& superblock, bool accept_copies,
                          Report& report) {
    for (size_t i = 0; i < devices.size(); ++i) {
        auto& recorded = superblock.devices[i].identity;
        const auto found = identity_of(*devices[i]);
        if (found[0] == 0 || found == recorded) continue;
        if (recorded[0] != 0 && !accept_copies) {
            return report.fail(
                Code::invalid,
                "{} is {}, and device {} of pool {} is {}: it is a copy, or the wrong disk. Name "
                "the original; or, where the copy is to take its place for good, write `io: "
                "{{accept_copies: true}}` in config.yaml for one opening",
                devices[i]->name(), devices[i]->identity().to_string(), i,
                superblock.pool.to_string(), identity_in(recorded).to_string());
        }
        recorded = found;
    }
    return {};
}

namespace {

// One after the other: at each moment one of the two is valid.
Task<> renew_copies_of(device::BlockDevice& device, const Superblock& superblock, uint32_t number,
                       Result<>& result) {
    AlignedBuffer block(block_bytes);
    Superblock wanted = superblock;
    wanted.device_number = number;
    for (const uint64_t at : {uint64_t{0}, superblock.devices[number].blocks - 1}) {
        result = co_await device.read(at * block_bytes, block.bytes());
        if (!result) co_return;
        const Result<Superblock> found = decode_superblock(block.bytes());
        if (!found && found.error().code == Code::bad_version) continue;
        encode(wanted, block.bytes());
        result = co_await device.write(at * block_bytes, block.bytes());
        if (result) result = co_await device.flush();
        if (!result) co_return;
    }
}

Task<Result<>> renew_copies(Reactor& reactor, const Devices& devices, const Superblock& superblock,
                            Report& report) {
    std::vector<Result<>> results(devices.size());
    {
        Nursery nursery(reactor, pool_devices_max);
        for (uint32_t i = 0; i < devices.size(); ++i) {
            co_await nursery.spawn(renew_copies_of(*devices[i], superblock, i, results[i]));
        }
        co_await nursery.join();
    }
    for (size_t i = 0; i < results.size(); ++i) {
        if (results[i]) continue;
        const Error error = results[i].error();
        co_return report.fail(
            error,
            "{}: renewing its superblock failed: {}. Check the device and open the pool again",
            devices[i]->name(), describe(error));
    }
    co_return Result<>();
}

}  // namespace

Task<Result<>> renew_superblocks(Reactor& reactor, const Devices& devices, Superblock& superblock,
                                 Report& report) {
    ++superblock.generation;
    // A single device has no other to be compared with.
    if (devices.size() > 1 && rules.reach_last)
        ROS2S_CO_TRY(co_await renew_copies(reactor, devices, superblock, report));
    superblock.reached_generation = superblock.generation;
    co_return co_await renew_copies(reactor, devices, superblock, report);
}

}  // namespace ros2s::engine
