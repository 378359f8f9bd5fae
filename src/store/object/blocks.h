// Caches: containers from which the store removes blocks so that their caps hold, instead of
// refusing others. The blocks are the dkeys of blocks_object. docs/formats/cache.md
//
// A container becomes a cache when a CacheRecord is put under cache_dkey(). Each other dkey is a
// block, named by its key. It has two akeys: an array with the bytes, and a single value, the head.
//
// Invariants
// - A transaction writes the bytes and puts the head of a block, on the condition that the head is
//   absent. So a block is whole or absent, and never changes. Only a punch of its dkey removes it.
// - A fetch of the head with an empty extent asks for its existence only: the status is not_found,
//   or else none or too_small.
// - A transaction that puts or punches pins has nothing else. It is done in memory. The pin is the
//   holder's: until then, or until its session or the store ends, the block is removed by request
//   or by age only. Blocks that are absent are left out. If the others would be more than half of a
//   cap, it is over_cap and pins nothing.
// - Transactions with blocks are deferred (Transaction::deferred), whatever they ask for.
#pragma once
#include <optional>
#include <string_view>

#include "ros2s/base/bytes.h"
#include "ros2s/object/vocabulary.h"

namespace ros2s::object {

inline constexpr ObjectId blocks_object{.high = 0x424c4b01, .low = 1};
inline constexpr size_t block_key_bytes_max = 64;
inline constexpr uint64_t block_length_max = uint64_t{32} << 20;
[[nodiscard]] constexpr bool is_block_key(std::string_view key) {
    return !key.empty() && key.size() <= block_key_bytes_max;
}
[[nodiscard]] inline Akey block_head_akey() { return {"head"}; }
[[nodiscard]] inline Akey block_data_akey() { return {"data"}; }
// A PinRecord, which the store keeps in memory. A punch under cache_dkey() ends all the holder's.
[[nodiscard]] inline Akey block_pin_akey() { return {"pin"}; }
// No block has this key.
[[nodiscard]] inline Dkey cache_dkey() { return {}; }
[[nodiscard]] inline Akey cache_akey() { return {"cache"}; }
// A CacheUse, which the store makes for each fetch.
[[nodiscard]] inline Akey cache_use_akey() { return {"use"}; }

struct BlockHead {
    static constexpr uint8_t kind = 'B';
    uint8_t magic = kind;
    uint8_t version = 1;
    uint8_t reserved[2] = {};
    uint32_t crc = 0;  // CRC32C of the key, and then of the bytes
    uint64_t length = 0;
};
static_assert(sizeof(BlockHead) == 16);

struct CacheRecord {
    static constexpr uint8_t kind = 'C';
    uint8_t magic = kind;
    uint8_t version = 1;
    uint8_t reserved[6] = {};
    uint64_t ttl_ns = 0;  // a block is removed when it is older; 0: never
};
static_assert(sizeof(CacheRecord) == 16);

struct PinRecord {
    static constexpr uint8_t kind = 'P';
    uint8_t magic = kind;
    uint8_t version = 1;
    uint8_t reserved[6] = {};
    uint64_t length_ns = 0;  // 1 to pin_length_max
};
static_assert(sizeof(PinRecord) == 16);
inline constexpr Duration pin_length_max = std::chrono::hours(24);

// Since the store was opened.
struct CacheUse {
    static constexpr uint8_t kind = 'U';
    uint8_t magic = kind;
    uint8_t version = 1;
    uint8_t reserved[2] = {};
    uint32_t pinned = 0;  // of these blocks
    uint64_t blocks = 0;  // present now
    uint64_t hits = 0, misses = 0, puts = 0;
    uint64_t evicted = 0, expired = 0, removed = 0;  // for others; by age; by request
    uint64_t evicted_age_s = 0;                      // the sum over the evicted
    // On average.
    [[nodiscard]] Duration evicted_age() const {
        return std::chrono::seconds(evicted == 0 ? 0 : evicted_age_s / evicted);
    }
};
static_assert(sizeof(CacheUse) == 72);

// Nothing: not a head, or of an unknown version.
[[nodiscard]] std::optional<BlockHead> parse_block_head(ConstBytes value);
[[nodiscard]] std::optional<CacheRecord> parse_cache_record(ConstBytes value);
[[nodiscard]] std::optional<PinRecord> parse_pin_record(ConstBytes value);
// What a block takes of its container's cap of bytes.
[[nodiscard]] uint64_t block_use(std::string_view key, uint64_t length);

}  // namespace ros2s::object
