#include "superblock.h"

#include <algorithm>
#include <cstring>

#include "ros2s/base/check.h"
#include "ros2s/base/crc32c.h"
#include "ros2s/engine/format/block_map.h"
#include "ros2s/engine/format/target.h"

namespace ros2s::engine {
namespace {

struct DeviceLayout {
    Uuid uuid;
    uint64_t blocks;
};
static_assert(sizeof(DeviceLayout) == 24);

// The layout on the media.
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

uint32_t layout_crc(const SuperblockLayout& layout) {
    SuperblockLayout copy = layout;
    copy.crc = 0;
    return crc32c(object_bytes(copy));
}

bool places_make_sense(const Superblock& s) {
    const uint64_t blocks = s.devices[0].blocks;
    for (const auto& device : s.devices) {
        if (device.blocks < 4 || device.blocks >= uint64_t{1} << 48) return false;
    }
    return s.checkpoint_first >= 1 && s.checkpoint_first + 2 <= s.journal_first &&
           s.journal_blocks >= 4 && s.journal_first < blocks && s.journal_blocks < blocks &&
           s.journal_first + s.journal_blocks < blocks;
}

}  // namespace

void encode(const Superblock& superblock, Bytes block) {
    ROS2S_CHECK(block.size() == block_bytes);
    ROS2S_CHECK(superblock.devices.size() <= pool_devices_max);
    SuperblockLayout layout{};
    ROS2S_CHECK(superblock.index_directory.size() < sizeof layout.index_directory);
    layout.magic = SuperblockLayout::magic_value;
    layout.version = Superblock::version_value;
    layout.pool = superblock.pool;
    layout.generation = superblock.generation;
    layout.reached_generation = superblock.reached_generation;
    layout.read_only_features = superblock.read_only_features;
    layout.device_number = superblock.device_number;
    layout.device_count = static_cast<uint32_t>(superblock.devices.size());
    layout.checkpoint_first = superblock.checkpoint_first;
    layout.journal_first = superblock.journal_first;
    layout.journal_blocks = superblock.journal_blocks;
    layout.created_ns = superblock.created_ns;
    layout.targets = superblock.targets;
    layout.segment_blocks = segment_blocks;
    std::ranges::copy(superblock.index_directory, layout.index_directory);
    for (size_t i = 0; i < superblock.devices.size(); ++i) {
        layout.devices[i] = {superblock.devices[i].uuid, superblock.devices[i].blocks};
        layout.identities[i] = superblock.devices[i].identity;
    }
    layout.crc = layout_crc(layout);
    std::memcpy(block.data(), &layout, sizeof layout);
}

Result<Superblock> decode_superblock(ConstBytes block) {
    SuperblockLayout layout;
    ROS2S_CHECK(block.size() == sizeof layout);
    std::memcpy(&layout, block.data(), sizeof layout);
    if (layout.magic != SuperblockLayout::magic_value) return fail(Code::not_found);
    if (layout.crc != layout_crc(layout)) return fail(Code::corrupt);
    if (layout.version != Superblock::version_value || layout.incompatible_features != 0 ||
        layout.segment_blocks != segment_blocks) {
        return fail(Code::bad_version, layout.version);
    }
    if (layout.device_count == 0 || layout.device_count > pool_devices_max ||
        layout.device_number >= layout.device_count || layout.targets == 0 ||
        layout.targets > pool_targets_max || layout.reached_generation > layout.generation) {
        return fail(Code::corrupt);
    }
    Superblock superblock{.pool = layout.pool,
                          .generation = layout.generation,
                          .reached_generation = layout.reached_generation,
                          .read_only_features = layout.read_only_features,
                          .device_number = layout.device_number,
                          .devices = {},
                          .checkpoint_first = layout.checkpoint_first,
                          .journal_first = layout.journal_first,
                          .journal_blocks = layout.journal_blocks,
                          .created_ns = layout.created_ns,
                          .targets = layout.targets,
                          .index_directory = {}};
    for (uint32_t i = 0; i < layout.device_count; ++i) {
        superblock.devices.push_back(
            {layout.devices[i].uuid, layout.devices[i].blocks, layout.identities[i]});
    }
    const std::string_view name(layout.index_directory, sizeof layout.index_directory);
    if (!name.contains('\0')) return fail(Code::corrupt);
    superblock.index_directory = name.substr(0, name.find('\0'));
    if (!places_make_sense(superblock)) return fail(Code::corrupt);
    return superblock;
}

}  // namespace ros2s::engine
