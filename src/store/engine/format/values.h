// Values of the pool's index. Each ends with the CRC32C of its other bytes, so that a damaged value
// is an error and never data. docs/formats/index.md describes them.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "ros2s/base/result.h"
#include "ros2s/engine/format/block_map.h"
#include "ros2s/object/object_store.h"

namespace ros2s::engine {

// The value of an entry key. Segment 0 is a single value or the head of an array, with its first
// 256 blocks. Each further segment has the next 256.
struct EntryValue {
    enum class Kind : uint8_t { single = 1, array = 2, segment = 3 };
    Kind kind{};
    uint64_t size = 0;      // array
    object::Epoch epoch{};  // single, array: of the last update
    WallTime time{};
    std::string single;
    BlockMap map;  // array, segment
};
[[nodiscard]] std::string encode(const EntryValue& entry);
// Errors of all these functions: corrupt, bad_version.
[[nodiscard]] Result<EntryValue> decode_entry(std::string_view value);
// Only kind, epoch and single value, without building the map: for listing.
[[nodiscard]] Result<EntryValue> decode_entry_head(std::string_view value);

// One akey name over all dkeys of an object.
struct SummaryValue {
    uint64_t entries = 0;  // dkeys that hold it
    uint64_t blocks = 0;   // allocated under all of them
    object::Epoch last_epoch{};
    WallTime last_time{};
    bool highest_known = false;  // false: the highest dkey was punched since
    std::string highest;
    friend bool operator==(const SummaryValue&, const SummaryValue&) = default;
};
[[nodiscard]] std::string encode(const SummaryValue& summary);
[[nodiscard]] Result<SummaryValue> decode_summary(std::string_view value);

// The stored reply to the last update of one request slot.
struct ReplyValue {
    uint64_t sequence = 0;
    object::Epoch epoch{};
    WallTime time{};
    uint64_t digest = 0;  // of the request
    bool whole = false;   // no reply of its client has ever been dropped
    friend bool operator==(const ReplyValue&, const ReplyValue&) = default;
};
[[nodiscard]] std::string encode(const ReplyValue& reply);
[[nodiscard]] Result<ReplyValue> decode_reply(std::string_view value);

// An owner of clients: the greatest epoch of its dropped replies. Owners without dropped replies
// have no such value.
struct OwnerValue {
    uint64_t dropped_upto = 0;
    friend bool operator==(const OwnerValue&, const OwnerValue&) = default;
};
[[nodiscard]] std::string encode(const OwnerValue& owner);
[[nodiscard]] Result<OwnerValue> decode_owner(std::string_view value);

struct ContainerValue {
    object::ContainerProperties properties;
    WallTime created{};
    bool retired = false;  // destroyed; its objects are being removed
    object::Amount used{};
    bool counted = true;  // not stored; false: of a pool that did not count `used`
};
[[nodiscard]] std::string encode(const ContainerValue& container);
[[nodiscard]] Result<ContainerValue> decode_container(std::string_view value);

// The position of the index: written with every batch.
struct MetaValue {
    Uuid pool;
    uint64_t applied = 0;  // the last group whose effects the index holds
    uint64_t next_epoch = 1;
    int64_t wall_time_ns = 0;  // of that group
    // The greatest epoch of the replies that were dropped with the last of their owner's clients.
    uint64_t replies_dropped_upto = 0;
    // Not stored; false: of a program that named the owners of served clients differently.
    bool by_sender = true;
    friend bool operator==(const MetaValue&, const MetaValue&) = default;
};
[[nodiscard]] std::string encode(const MetaValue& meta);
[[nodiscard]] Result<MetaValue> decode_meta(std::string_view value);

// A region of the space bitmap: `bits`, then the CRC.
[[nodiscard]] std::string encode_space(std::string_view bits);
[[nodiscard]] Result<std::string_view> decode_space(std::string_view value);

}  // namespace ros2s::engine
