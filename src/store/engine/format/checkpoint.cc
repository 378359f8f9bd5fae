#include "checkpoint.h"

#include <algorithm>
#include <cstring>

#include "counter.h"
#include "ros2s/base/check.h"
#include "ros2s/base/crc32c.h"

namespace ros2s::engine {
namespace {
uint32_t slot_crc(CheckpointSlot slot) {
    slot.crc = 0;
    return crc32c(object_bytes(slot));
}
}  // namespace

void encode(CheckpointSlot slot, Bytes block) {
    ROS2S_CHECK(block.size() == block_bytes);
    slot.crc = slot_crc(slot);
    std::memset(block.data(), 0, block.size());
    std::memcpy(block.data(), &slot, sizeof slot);
}

Result<CheckpointSlot> decode_checkpoint(ConstBytes block) {
    CheckpointSlot slot;
    ROS2S_CHECK(block.size() == block_bytes);
    std::memcpy(&slot, block.data(), sizeof slot);
    if (slot.magic != CheckpointSlot::magic_value) return fail(Code::corrupt);
    if (slot.crc != slot_crc(slot)) return fail(Code::corrupt);
    if (slot.version != CheckpointSlot::version_value) return fail(Code::bad_version, slot.version);
    if (std::max({slot.number, slot.applied, slot.next_epoch}) > counter_max) {
        return fail(Code::corrupt);
    }
    slot.crc = 0;
    return slot;
}

}  // namespace ros2s::engine
