// SuperblockLayout: the bytes of a superblock. A struct and not a list of fields (base/fields.h),
// because the entries of devices have fixed places, and the CRC in it is of the whole block.
#pragma once
#include <array>
#include <cstdint>

#include "ros2s/base/uuid.h"
#include "superblock.h"

namespace ros2s::engine {

struct DeviceLayout {
    Uuid uuid;
    uint64_t blocks;
};
static_assert(sizeof(DeviceLayout) == 24);

struct SuperblockLayout {
    static constexpr uint64_t magic_value = 0x3142534c4f4f5052;  // "RPOOLSB1"
    uint64_t magic;
    uint32_t version;
    uint32_t crc;  // of the whole block, with this field zero
    // Bits of features without which the pool cannot be read, or not be written. None yet.
    uint64_t incompatible_features;
    uint64_t read_only_features;
    Uuid pool;
    uint64_t generation;
    uint32_t device_number;
    uint32_t device_count;
    uint64_t checkpoint_first;
    uint64_t journal_first;
    uint64_t journal_blocks;
    uint64_t created_ns;
    uint32_t targets;
    uint32_t segment_blocks;
    char index_directory[64];  // ends with a zero byte
    DeviceLayout devices[pool_devices_max];
    std::array<uint8_t, 32> identities[pool_devices_max];
    uint64_t reached_generation;
    std::byte reserved[4096 - 176 - pool_devices_max * (sizeof(DeviceLayout) + 32)];
};
static_assert(sizeof(SuperblockLayout) == block_bytes);

}  // namespace ros2s::engine
