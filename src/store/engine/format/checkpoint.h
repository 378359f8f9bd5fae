// CheckpointSlot: the start of recovery. Two slots on device 0 are written in turn, each only when
// the index is durable up to the cut. The newer valid one counts. docs/formats/checkpoint.md.
#pragma once
#include <cstdint>

#include "ros2s/base/bytes.h"
#include "ros2s/base/result.h"
#include "ros2s/base/uuid.h"

namespace ros2s::engine {

struct CheckpointSlot {
    static constexpr uint64_t magic_value = 0x3150434c4f4f5052;  // "RPOOLCP1"
    static constexpr uint32_t version_value = 1;

    uint64_t magic = magic_value;
    uint32_t version = version_value;
    uint32_t crc = 0;  // of the struct, with this field zero
    Uuid pool;
    uint64_t number = 0;       // rises by one; slot = number % 2
    uint64_t applied = 0;      // the last group whose effects the index holds; it was durable
    uint64_t position = 0;     // block in the ring at which the next record is expected
    uint64_t next_id = 0;      // the id it must have
    uint64_t previous_id = 0;  // the id it must name as its predecessor
    uint64_t next_epoch = 0;
    uint64_t incarnation = 0;  // of the last record; 0: an earlier program did not say
    uint64_t reserved[3] = {};
    friend bool operator==(const CheckpointSlot&, const CheckpointSlot&) = default;
};
static_assert(sizeof(CheckpointSlot) == 112);

// Fills a block.
void encode(CheckpointSlot slot, Bytes block);
// Errors: corrupt (also if there is none), bad_version.
[[nodiscard]] Result<CheckpointSlot> decode_checkpoint(ConstBytes block);

}  // namespace ros2s::engine
