#include "superblock.h"

#include <algorithm>
#include <cstring>

#include "counter.h"
#include "ros2s/base/check.h"
#include "ros2s/base/crc32c.h"
#include "ros2s/engine/format/block_map.h"
#include "ros2s/engine/format/target.h"
#include "superblock_layout.h"

namespace ros2s::engine {
namespace {

uint32_t layout_crc(const SuperblockLayout& layout) {
    SuperblockLayout copy = layout;
    copy.crc = 0;
    return crc32c(object_bytes(copy));
}

// The members that both have.
void copy_members(const auto& from, auto& to) {
    to.pool = from.pool;
    to.generation = from.generation;
    to.reached_generation = from.reached_generation;
    to.read_only_features = from.read_only_features;
    to.device_number = from.device_number;
    to.checkpoint_first = from.checkpoint_first;
    to.journal_first = from.journal_first;
    to.journal_blocks = from.journal_blocks;
    to.created_ns = from.created_ns;
    to.targets = from.targets;
}

// Each number is compared before it is added to, so that no sum wraps around.
bool places_make_sense(const Superblock& s) {
    for (const auto& device : s.devices) {
        if (device.blocks == 0 || device.blocks >= uint64_t{1} << 48) return false;
    }
    const uint64_t blocks = s.devices[0].blocks;
    if (s.journal_first >= blocks || s.journal_blocks >= blocks) return false;
    if (s.checkpoint_first < 1 || s.checkpoint_first >= s.journal_first) return false;
    if (s.checkpoint_first + 2 > s.journal_first) return false;
    if (s.journal_blocks < journal_blocks_least) return false;
    for (uint32_t i = 0; i < s.devices.size(); ++i) {
        if (s.data_first(i) + data_blocks_least > s.data_end(i)) return false;
    }
    return true;
}

// Not a path that leads out of the pool's directory.
bool is_plain_name(std::string_view name) {
    return !name.empty() && name != "." && name != ".." && !name.contains('/');
}

}  // namespace

void encode(const Superblock& superblock, Bytes block) {
    ROS2S_CHECK(block.size() == block_bytes);
    ROS2S_CHECK(superblock.devices.size() <= pool_devices_max);
    SuperblockLayout layout{};
    ROS2S_CHECK(superblock.index_directory.size() < sizeof layout.index_directory);
    layout.magic = SuperblockLayout::magic_value;
    layout.version = Superblock::version_value;
    copy_members(superblock, layout);
    layout.device_count = static_cast<uint32_t>(superblock.devices.size());
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
        layout.targets > pool_targets_max || layout.reached_generation > layout.generation ||
        layout.generation > counter_max) {
        return fail(Code::corrupt);
    }
    Superblock superblock;
    copy_members(layout, superblock);
    for (uint32_t i = 0; i < layout.device_count; ++i) {
        superblock.devices.push_back(
            {layout.devices[i].uuid, layout.devices[i].blocks, layout.identities[i]});
    }
    const std::string_view name(layout.index_directory, sizeof layout.index_directory);
    if (!name.contains('\0')) return fail(Code::corrupt);
    superblock.index_directory = name.substr(0, name.find('\0'));
    if (!is_plain_name(superblock.index_directory) || !places_make_sense(superblock))
        return fail(Code::corrupt);
    return superblock;
}

}  // namespace ros2s::engine
