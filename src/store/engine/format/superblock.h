// Superblock: the first and the last block of each device of a pool. It names the device's pool,
// the pool's other devices, and the positions of everything. It is written when the pool is made,
// when a device is added, and first of all at each opening for writing, each time with a higher
// generation. The newest valid one counts. It names the generation that every device has reached,
// so that a device restored from an old copy is recognised. docs/formats/superblock.md describes
// it.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ros2s/base/bytes.h"
#include "ros2s/base/result.h"
#include "ros2s/base/uuid.h"

namespace ros2s::engine {

inline constexpr uint32_t pool_devices_max = 64;
inline constexpr uint64_t journal_blocks_least = 16;
inline constexpr uint64_t data_blocks_least = 16;  // of each device

struct Superblock {
    static constexpr uint32_t version_value = 2;

    Uuid pool;
    uint64_t generation = 0;
    // Every device of the pool durably had this generation, or a later one, before this copy was
    // written. A device with an earlier generation lacks later writes.
    uint64_t reached_generation = 0;
    // Bits of features without which the pool can be read but not written. This version has none.
    uint64_t read_only_features = 0;
    uint32_t device_number = 0;  // of the device that holds this copy
    struct Device {
        Uuid uuid;
        uint64_t blocks = 0;
        // The identity of the medium: the kind, then the identifying bytes
        // (docs/formats/superblock.md). All zeros: no identity, as for a file.
        std::array<uint8_t, 32> identity{};
        friend bool operator==(const Device&, const Device&) = default;
    };
    std::vector<Device> devices;
    // On device 0, in blocks. The journal follows the two checkpoint slots; the data follow the
    // journal. On other devices the data follow the superblock.
    uint64_t checkpoint_first = 0;
    uint64_t journal_first = 0, journal_blocks = 0;
    uint64_t created_ns = 0;
    uint32_t targets = 0;         // partitions of the dkeys: target.h
    std::string index_directory;  // a name in the pool's directory

    friend bool operator==(const Superblock&, const Superblock&) = default;
    // First block of the data of a device, and the one after the last.
    [[nodiscard]] uint64_t data_first(uint32_t device) const {
        return device == 0 ? journal_first + journal_blocks : 1;
    }
    [[nodiscard]] uint64_t data_end(uint32_t device) const { return devices[device].blocks - 1; }
    // Which of two copies is newer.
    [[nodiscard]] std::pair<uint64_t, uint64_t> age() const {
        return {generation, reached_generation};
    }
};

void encode(const Superblock& superblock, Bytes block);
// Errors: not_found (no superblock at all), corrupt, bad_version (also for unknown features;
// detail = the version).
[[nodiscard]] Result<Superblock> decode_superblock(ConstBytes block);

}  // namespace ros2s::engine
