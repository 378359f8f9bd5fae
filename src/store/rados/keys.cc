#include "keys.h"

#include <fmt/format.h>

#include <charconv>

namespace ros2s::rados {
namespace {

constexpr char entry_tag = 'e', reverse_tag = 'r', column_tag = 'c';
constexpr std::string_view reply_prefix = "fn";  // no decision: they go on with a digit

// Reverses the order of escaped strings. They have no 00, and neither has the result.
std::string reversed(std::string bytes) {
    for (char& c : bytes) c = static_cast<char>(0x100 - static_cast<uint8_t>(c));
    return bytes;
}

// The next `digits` hexadecimal digits.
std::optional<uint64_t> take_hex(std::string_view& from, size_t digits) {
    uint64_t value = 0;
    if (from.size() < digits) return {};
    const char* const begin = from.data();
    const char* const end = begin + digits;
    const auto [at, failed] = std::from_chars(begin, end, value, 16);
    if (failed != std::errc{} || at != end) return {};
    from.remove_prefix(digits);
    return value;
}

std::string hex(const Uuid& uuid) {
    std::string text;
    for (const uint8_t byte : uuid.bytes) text += fmt::format("{:02x}", byte);
    return text;
}

}  // namespace

std::string escape(std::string_view bytes) {
    std::string escaped;
    escaped.reserve(bytes.size() + 2);
    for (const char c : bytes) {
        if (c == '\0' || c == '\1') {
            escaped += '\1';
            escaped += static_cast<char>(c + 2);
        } else {
            escaped += c;
        }
    }
    return escaped += "\1\1";
}

std::optional<std::string> unescape(std::string_view& from) {
    std::string bytes;
    for (size_t i = 0; i < from.size(); ++i) {
        if (from[i] == '\0') return {};  // it is escaped
        if (from[i] != '\1') {
            bytes += from[i];
            continue;
        }
        if (++i == from.size()) return {};
        if (from[i] == '\1') {
            from.remove_prefix(i + 1);
            return bytes;
        }
        if (from[i] != '\2' && from[i] != '\3') return {};
        bytes += static_cast<char>(from[i] - 2);
    }
    return {};
}

std::string entry_prefix(const object::Dkey& dkey) { return entry_tag + escape(dkey.bytes); }
std::string entry_key(const object::Dkey& dkey, const object::Akey& akey) {
    return entry_prefix(dkey) + escape(akey.bytes);
}
std::string segment_key(const std::string& entry_key, uint64_t segment) {
    return entry_key + fmt::format("{:08x}", segment);
}
std::string column_key(const object::Akey& akey) { return column_tag + escape(akey.bytes); }
std::string reverse_prefix(const object::Akey& akey) { return reverse_tag + escape(akey.bytes); }
std::string reverse_key(const object::Dkey& dkey, const object::Akey& akey) {
    return reverse_prefix(akey) + reversed(escape(dkey.bytes));
}

std::optional<object::Dkey> dkey_of_reverse_key(std::string_view key, std::string_view prefix) {
    if (!key.starts_with(prefix)) return {};
    const std::string escaped = reversed(std::string(key.substr(prefix.size())));
    std::string_view rest = escaped;
    auto dkey = unescape(rest);
    if (!dkey || !rest.empty()) return {};
    return object::Dkey{std::move(*dkey)};
}

std::string end_of_prefix(std::string prefix) {
    while (!prefix.empty() && prefix.back() == '\xff') prefix.pop_back();
    if (!prefix.empty()) ++prefix.back();
    return prefix;
}

std::optional<EntryKey> parse_entry_key(std::string_view key) {
    if (key.empty() || key.front() != entry_tag) return {};
    key.remove_prefix(1);
    auto dkey = unescape(key);
    if (!dkey) return {};
    auto akey = unescape(key);
    if (!akey) return {};
    EntryKey parsed{.dkey = {std::move(*dkey)}, .akey = {std::move(*akey)}, .segment = {}};
    if (key.empty()) return parsed;
    const auto segment = key.size() == 8 ? take_hex(key, 8) : std::nullopt;
    if (!segment) return {};
    parsed.segment = static_cast<uint32_t>(*segment);
    return parsed;
}

std::string space_of(object::ContainerId container) { return container.uuid.to_string(); }

std::string object_name(object::ObjectId object) {
    return fmt::format("o{:016x}{:016x}", object.high, object.low);
}
std::optional<object::ObjectId> parse_object_name(std::string_view name) {
    if (name.size() != 33 || name.front() != 'o') return {};
    name.remove_prefix(1);
    const auto high = take_hex(name, 16), low = take_hex(name, 16);
    if (!high || !low) return {};
    return object::ObjectId{*high, *low};
}

std::string bytes_key(const DataId& id) {
    return fmt::format("b{:016x}{:016x}", id.time, id.number);
}
std::string decision_key(uint64_t change, const Uuid& transaction) {
    return decision_tag + fmt::format("{:016x}", change) + hex(transaction);
}
std::optional<uint64_t> change_of_decision_key(std::string_view key) {
    if (key.size() != 49 || key.front() != decision_tag) return {};
    key.remove_prefix(1);
    return take_hex(key, 16);
}
std::string reply_key(const UpdateName& id) {
    return fmt::format("{}{}{}{:08x}", reply_prefix, hex(id.owner), hex(id.client), id.slot);
}
std::optional<ReplyPlace> place_of_reply_key(std::string_view key) {
    if (key.size() != 74 || !key.starts_with(reply_prefix)) return {};
    key.remove_prefix(reply_prefix.size());
    return ReplyPlace{"r" + std::string(key.substr(0, 64)), "s" + std::string(key.substr(64))};
}
std::string data_name(object::ObjectId object, const DataId& id) {
    return fmt::format("d{:016x}{:016x}.{:016x}{:016x}{:016x}", object.high, object.low, id.time,
                       id.store, id.number);
}
std::optional<DataName> parse_data_name(std::string_view name) {
    if (name.size() != 82 || name.front() != 'd' || name[33] != '.') return {};
    name.remove_prefix(1);
    const auto high = take_hex(name, 16), low = take_hex(name, 16);
    name.remove_prefix(1);
    const auto time = take_hex(name, 16), store = take_hex(name, 16), number = take_hex(name, 16);
    if (!high || !low || !time || !store || !number) return {};
    return DataName{{*high, *low}, {*time, *store, *number}};
}

std::string replies_name(const Uuid& owner, const Uuid& client) {
    return "r" + hex(owner) + hex(client);
}
bool is_replies_name(std::string_view name) { return name.size() == 65 && name.front() == 'r'; }
std::string slot_key(uint32_t slot) { return fmt::format("s{:08x}", slot); }
bool is_log_name(std::string_view name) {
    if (name.size() != 17 || name.front() != 't') return false;
    name.remove_prefix(1);
    return take_hex(name, 16).has_value();
}

}  // namespace ros2s::rados
