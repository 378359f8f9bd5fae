// Keys of the pool's index: one table byte, then fields in an order-preserving encoding, so that a
// scan of a prefix visits an object's dkeys in order. docs/formats/index.md describes them.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ros2s/object/vocabulary.h"

namespace ros2s::engine {

enum class Table : uint8_t {
    meta = 0,
    entries = 1,     // container, object, dkey, akey, segment
    summaries = 2,   // container, object, akey
    replies = 3,     // owner, client, container, slot
    containers = 4,  // container
    space = 5,       // device, region
    owners = 6,      // owner
};

// Builds a key without allocating. The longest is an entry whose dkey and akey are 255 zero bytes.
class KeyBuilder {
  public:
    explicit KeyBuilder(Table table) : size_(1) { bytes_[0] = static_cast<char>(table); }
    KeyBuilder& container(object::ContainerId container);
    KeyBuilder& object(object::ObjectId object);
    // A zero byte becomes 00 01 and the end is 00 00, which preserves "a" < "a\0" < "ab".
    KeyBuilder& string(std::string_view text);
    KeyBuilder& number32(uint32_t number);  // big-endian
    KeyBuilder& uuid(const Uuid& uuid);
    [[nodiscard]] std::string_view view() const { return {bytes_.data(), size_}; }
    [[nodiscard]] std::string take() const { return std::string(view()); }

  private:
    KeyBuilder& append(const void* bytes, size_t count);
    std::array<char, 1 + 16 + 16 + 2 * (2 * object::key_bytes_max + 2) + 4> bytes_;
    size_t size_;
};

[[nodiscard]] KeyBuilder entry_key(object::ContainerId container, object::ObjectId object,
                                   std::string_view dkey, std::string_view akey, uint32_t segment);
[[nodiscard]] KeyBuilder summary_key(object::ContainerId container, object::ObjectId object,
                                     std::string_view akey);
// A request slot of a client, whose names belong to its owner. In a container; nil: for changes of
// containers.
struct ReplyKey {
    Uuid owner;
    Uuid client;
    object::ContainerId container;
    uint32_t slot = 0;
    friend auto operator<=>(const ReplyKey&, const ReplyKey&) = default;
};
[[nodiscard]] KeyBuilder reply_key(const ReplyKey& reply);
[[nodiscard]] KeyBuilder owner_key(const Uuid& owner);
[[nodiscard]] KeyBuilder container_key(object::ContainerId container);
[[nodiscard]] KeyBuilder space_key(uint32_t device, uint32_t region);
[[nodiscard]] KeyBuilder meta_key();

// The fields of an index key. Empty if the bytes are not such a key: also if a string is longer
// than key_bytes_max, an akey is empty, or a segment is beyond array_bytes_max.
struct EntryKey {
    object::ContainerId container;
    object::ObjectId object;
    std::string dkey, akey;
    uint32_t segment = 0;
};
struct SummaryKey {
    object::ContainerId container;
    object::ObjectId object;
    std::string akey;
};
struct SpaceKey {
    uint32_t device = 0, region = 0;
};
[[nodiscard]] std::optional<EntryKey> parse_entry_key(std::string_view key);
[[nodiscard]] std::optional<SummaryKey> parse_summary_key(std::string_view key);
[[nodiscard]] std::optional<SpaceKey> parse_space_key(std::string_view key);
[[nodiscard]] std::optional<ReplyKey> parse_reply_key(std::string_view key);
[[nodiscard]] std::optional<Uuid> parse_owner_key(std::string_view key);
[[nodiscard]] std::optional<object::ContainerId> parse_container_key(std::string_view key);

// The least key greater than all keys with this `prefix`; empty if there is none.
[[nodiscard]] std::string prefix_end(std::string_view prefix);

}  // namespace ros2s::engine
