// Any 4 KiB as a superblock and as a checkpoint slot. Magic, version and checksum are made valid,
// so that the fields are reached. The bytes are refused, or decoding, encoding and decoding gives
// the same result.
#include <algorithm>
#include <array>
#include <cstring>

#include "checkpoint.h"
#include "ros2s/base/check.h"
#include "ros2s/base/crc32c.h"
#include "superblock.h"

using namespace ros2s;
using namespace ros2s::engine;

namespace {

// Both structures begin with magic (8), version (4), CRC (4).
using Block = std::array<std::byte, block_bytes>;
void put_right(Block& block, const Block& pattern, size_t guarded) {
    std::copy_n(pattern.begin(), 12, block.begin());
    const uint32_t none = 0;
    std::memcpy(block.data() + 12, &none, sizeof none);
    const uint32_t crc = crc32c(ConstBytes(block).first(guarded));
    std::memcpy(block.data() + 12, &crc, sizeof crc);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    Block block{}, pattern{};
    std::memcpy(block.data(), data, std::min(size, block.size()));
    static_cast<void>(decode_superblock(block));
    static_cast<void>(decode_checkpoint(block));

    encode(Superblock{.devices = {{}}}, pattern);
    put_right(block, pattern, block.size());
    if (const auto superblock = decode_superblock(block)) {
        encode(*superblock, pattern);
        ROS2S_CHECK(decode_superblock(pattern) == *superblock);
    }
    encode(CheckpointSlot(), pattern);
    put_right(block, pattern, sizeof(CheckpointSlot));
    if (const auto slot = decode_checkpoint(block)) {
        encode(*slot, pattern);
        ROS2S_CHECK(decode_checkpoint(pattern) == *slot);
    }
    return 0;
}
