// BlockAddress: the location of one 4 KiB block in a pool. BlockRef: the address and the block's
// CRC32C.
#pragma once
#include <compare>
#include <cstdint>

namespace ros2s::engine {

// device << 48 | block number. 0 is a hole: block 0 of device 0 is a superblock, never data.
struct BlockAddress {
    uint64_t value = 0;
    friend auto operator<=>(const BlockAddress&, const BlockAddress&) = default;

    [[nodiscard]] static constexpr BlockAddress make(uint32_t device, uint64_t block) {
        return {uint64_t{device} << 48 | block};
    }
    [[nodiscard]] constexpr bool is_hole() const { return value == 0; }
    [[nodiscard]] constexpr uint32_t device() const { return static_cast<uint32_t>(value >> 48); }
    [[nodiscard]] constexpr uint64_t block() const { return value & ((uint64_t{1} << 48) - 1); }
    [[nodiscard]] constexpr BlockAddress operator+(uint64_t blocks) const {
        return {value + blocks};
    }
};

// A block of an array, and the CRC32C of its 4 KiB on the media.
struct BlockRef {
    BlockAddress address{};
    uint32_t crc = 0;
    friend bool operator==(const BlockRef&, const BlockRef&) = default;
};

}  // namespace ros2s::engine
