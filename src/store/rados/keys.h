// The keys of an object's omap and the names of RADOS objects (docs/formats/rados.md). Byte strings
// are escaped so that the keys are in the order of their parts, no key's part is a prefix of
// another's, and no key has a byte 00. librados takes the start of a listing as a C string.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "ros2s/base/uuid.h"
#include "ros2s/object/vocabulary.h"

namespace ros2s::rados {

inline constexpr const char* head_key = "h";
inline constexpr const char* pending_key = "t";
inline constexpr const char* inline_key = "b";    // the number of bytes in the omap
inline constexpr char garbage_tag = 'g';          // before the name of data
inline constexpr char decision_tag = 'f';         // see decision_key() and reply_key()
inline constexpr const char* mark_key = "m";      // text that each new record changes
inline constexpr const char* made_key = "c";      // of replies: text set when they are created
inline constexpr const char* dropped_name = "x";  // replies have been removed
inline constexpr uint64_t segment_bytes = uint64_t{4} << 20;  // of an array; the most in one object

// 00 and 01 become 01 02 and 01 03. 01 01 ends the string.
[[nodiscard]] std::string escape(std::string_view bytes);
// Takes an escaped string from the front of `from`; nullopt: there is none.
[[nodiscard]] std::optional<std::string> unescape(std::string_view& from);

[[nodiscard]] std::string entry_prefix(const object::Dkey& dkey);  // of all its akeys
[[nodiscard]] std::string entry_key(const object::Dkey& dkey, const object::Akey& akey);
[[nodiscard]] std::string segment_key(const std::string& entry_key, uint64_t segment);
[[nodiscard]] std::string column_key(const object::Akey& akey);
[[nodiscard]] std::string reverse_prefix(const object::Akey& akey);
[[nodiscard]] std::string reverse_key(const object::Dkey& dkey, const object::Akey& akey);
// The dkey of a reverse key with this prefix.
[[nodiscard]] std::optional<object::Dkey> dkey_of_reverse_key(std::string_view key,
                                                              std::string_view prefix);
// The first key after all keys with the prefix. The prefix is not all ff.
[[nodiscard]] std::string end_of_prefix(std::string prefix);

struct EntryKey {
    object::Dkey dkey;
    object::Akey akey;
    std::optional<uint32_t> segment;  // none: the entry itself
};
[[nodiscard]] std::optional<EntryKey> parse_entry_key(std::string_view key);

// Names bytes of an array that were written at once.
struct DataId {
    uint64_t time = 0;  // when it was written, in nanoseconds since 1970
    uint64_t store = 0;
    uint64_t number = 0;
    friend auto operator<=>(const DataId&, const DataId&) = default;
    // Its bytes are in the omap of the object, at bytes_key(), and not in the data pool.
    [[nodiscard]] bool is_inline() const { return store == 0; }
};
[[nodiscard]] std::string bytes_key(const DataId& id);
// The key of a decision. Its transaction replaces the head with the number `change`.
[[nodiscard]] std::string decision_key(uint64_t change, const Uuid& transaction);
[[nodiscard]] std::optional<uint64_t> change_of_decision_key(std::string_view key);
// The key of a note: the reply to a write of this object, until its slot has the reply. It also
// starts with the tag of decisions.
[[nodiscard]] std::string reply_key(const UpdateName& id);
// The slot for a reply: the name of the replies object, and the key in it.
struct ReplyPlace {
    std::string replies, slot;
};
[[nodiscard]] std::optional<ReplyPlace> place_of_reply_key(std::string_view key);
[[nodiscard]] std::string space_of(object::ContainerId container);
[[nodiscard]] std::string object_name(object::ObjectId object);
[[nodiscard]] std::optional<object::ObjectId> parse_object_name(std::string_view name);
[[nodiscard]] std::string data_name(object::ObjectId object, const DataId& id);
struct DataName {
    object::ObjectId object;
    DataId id;
};
[[nodiscard]] std::optional<DataName> parse_data_name(std::string_view name);
[[nodiscard]] std::string replies_name(const Uuid& owner, const Uuid& client);
[[nodiscard]] bool is_replies_name(std::string_view name);
[[nodiscard]] std::string slot_key(uint32_t slot);
// Of unnamed transactions of earlier versions: "t", and the number of the store.
[[nodiscard]] bool is_log_name(std::string_view name);

}  // namespace ros2s::rados
