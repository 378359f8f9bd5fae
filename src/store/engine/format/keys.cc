#include "keys.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "ros2s/base/bytes.h"
#include "ros2s/engine/format/block_map.h"

namespace ros2s::engine {
namespace {

template <class Number>
constexpr Number big_endian(Number number) {
    return std::endian::native == std::endian::little ? std::byteswap(number) : number;
}

}  // namespace

KeyBuilder& KeyBuilder::append(const void* bytes, size_t count) {
    std::memcpy(bytes_.data() + size_, bytes, count);
    size_ += count;
    return *this;
}
KeyBuilder& KeyBuilder::uuid(const Uuid& uuid) {
    return append(uuid.bytes.data(), uuid.bytes.size());
}
KeyBuilder& KeyBuilder::container(object::ContainerId container) { return uuid(container.uuid); }
KeyBuilder& KeyBuilder::object(object::ObjectId object) {
    const uint64_t words[] = {big_endian(object.high), big_endian(object.low)};
    return append(words, sizeof words);
}
KeyBuilder& KeyBuilder::string(std::string_view text) {
    char* at = bytes_.data() + size_;
    for (const char c : text) {
        *at++ = c;
        if (c == 0) *at++ = 1;
    }
    *at++ = 0;
    *at++ = 0;
    size_ = static_cast<size_t>(at - bytes_.data());
    return *this;
}
KeyBuilder& KeyBuilder::number32(uint32_t number) {
    number = big_endian(number);
    return append(&number, sizeof number);
}

KeyBuilder entry_key(object::ContainerId container, object::ObjectId object, std::string_view dkey,
                     std::string_view akey, uint32_t segment) {
    KeyBuilder key(Table::entries);
    key.container(container).object(object).string(dkey).string(akey).number32(segment);
    return key;
}
KeyBuilder summary_key(object::ContainerId container, object::ObjectId object,
                       std::string_view akey) {
    KeyBuilder key(Table::summaries);
    key.container(container).object(object).string(akey);
    return key;
}
KeyBuilder reply_key(const ReplyKey& reply) {
    KeyBuilder key(Table::replies);
    key.uuid(reply.owner).uuid(reply.client).container(reply.container).number32(reply.slot);
    return key;
}
KeyBuilder owner_key(const Uuid& owner) {
    KeyBuilder key(Table::owners);
    key.uuid(owner);
    return key;
}
KeyBuilder container_key(object::ContainerId container) {
    KeyBuilder key(Table::containers);
    key.container(container);
    return key;
}
KeyBuilder space_key(uint32_t device, uint32_t region) {
    KeyBuilder key(Table::space);
    key.number32(device).number32(region);
    return key;
}
KeyBuilder meta_key() { return KeyBuilder(Table::meta); }

namespace {

constexpr uint64_t segments_max = object::array_bytes_max / (segment_blocks * block_bytes);

// Decodes fields from the front of a key.
class KeyReader {
  public:
    KeyReader(std::string_view key, Table table) : key_(key) {
        ok_ = !key_.empty() && static_cast<uint8_t>(key_.front()) == static_cast<uint8_t>(table);
        if (ok_) key_.remove_prefix(1);
    }
    [[nodiscard]] bool done() const { return ok_ && key_.empty(); }
    Uuid uuid() {
        Uuid uuid;
        if (!need(uuid.bytes.size())) return uuid;
        std::copy_n(key_.begin(), uuid.bytes.size(), uuid.bytes.begin());
        key_.remove_prefix(uuid.bytes.size());
        return uuid;
    }
    uint64_t number(size_t bytes) {
        uint64_t number = 0;
        if (!need(bytes)) return 0;
        for (size_t i = 0; i < bytes; ++i) number = number << 8 | static_cast<uint8_t>(key_[i]);
        key_.remove_prefix(bytes);
        return number;
    }
    std::string string() {
        std::string text;
        while (need(1)) {
            const char c = key_.front();
            key_.remove_prefix(1);
            if (c == 0) {
                if (!need(1)) break;
                const char mark = key_.front();
                key_.remove_prefix(1);
                if (mark == 0) return text;
                ok_ = ok_ && mark == 1;
            }
            // A longer one does not fit into a KeyBuilder.
            ok_ = ok_ && text.size() < object::key_bytes_max;
            text += c;
        }
        return {};
    }

  private:
    bool need(size_t bytes) {
        ok_ = ok_ && key_.size() >= bytes;
        return ok_;
    }
    std::string_view key_;
    bool ok_;
};

}  // namespace

std::optional<EntryKey> parse_entry_key(std::string_view key) {
    KeyReader reader(key, Table::entries);
    EntryKey out;
    out.container.uuid = reader.uuid();
    out.object.high = reader.number(8);
    out.object.low = reader.number(8);
    out.dkey = reader.string();
    out.akey = reader.string();
    out.segment = static_cast<uint32_t>(reader.number(4));
    if (!reader.done() || out.akey.empty() || out.segment >= segments_max) return std::nullopt;
    return out;
}
std::optional<SummaryKey> parse_summary_key(std::string_view key) {
    KeyReader reader(key, Table::summaries);
    SummaryKey out;
    out.container.uuid = reader.uuid();
    out.object.high = reader.number(8);
    out.object.low = reader.number(8);
    out.akey = reader.string();
    if (!reader.done() || out.akey.empty()) return std::nullopt;
    return out;
}
std::optional<SpaceKey> parse_space_key(std::string_view key) {
    KeyReader reader(key, Table::space);
    SpaceKey out;
    out.device = static_cast<uint32_t>(reader.number(4));
    out.region = static_cast<uint32_t>(reader.number(4));
    if (!reader.done()) return std::nullopt;
    return out;
}
std::optional<ReplyKey> parse_reply_key(std::string_view key) {
    KeyReader reader(key, Table::replies);
    ReplyKey out;
    out.owner = reader.uuid();
    out.client = reader.uuid();
    out.container.uuid = reader.uuid();
    out.slot = static_cast<uint32_t>(reader.number(4));
    if (!reader.done()) return std::nullopt;
    return out;
}
std::optional<Uuid> parse_owner_key(std::string_view key) {
    KeyReader reader(key, Table::owners);
    const Uuid out = reader.uuid();
    if (!reader.done()) return std::nullopt;
    return out;
}
std::optional<object::ContainerId> parse_container_key(std::string_view key) {
    KeyReader reader(key, Table::containers);
    const object::ContainerId out{reader.uuid()};
    if (!reader.done()) return std::nullopt;
    return out;
}

std::string prefix_end(std::string_view prefix) {
    std::string end(prefix);
    while (!end.empty() && static_cast<uint8_t>(end.back()) == 0xff) end.pop_back();
    if (!end.empty()) end.back() = static_cast<char>(static_cast<uint8_t>(end.back()) + 1);
    return end;
}

}  // namespace ros2s::engine
