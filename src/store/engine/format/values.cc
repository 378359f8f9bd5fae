#include "values.h"

#include <algorithm>
#include <array>

#include "counter.h"
#include "ros2s/base/crc32c.h"
#include "value_fields.h"

namespace ros2s::engine {
namespace {

constexpr uint8_t version_value = 1;
constexpr uint8_t container_version = 2, meta_version = 2;
constexpr uint8_t tag_summary = 4, tag_container = 6, tag_meta = 7, tag_space = 8;
// 5 was a reply without a digest, of pools of version 1.
constexpr uint8_t tag_reply = 9, tag_owner = 10;
// Bits of an entry's flags. A reader refuses those that it does not know.
constexpr uint16_t flag_seals = 1;  // seals of the blocks follow the map
constexpr uint16_t flags_known = flag_seals;

// Adds two bytes before each value and four after it.
class Builder {
  public:
    Builder(uint8_t tag, size_t bytes_max, uint8_t version = version_value)
        : text_(bytes_max + 6, '\0'), encoder_(memory()) {
        encoder_.number(tag);
        encoder_.number(version);
    }
    FieldWriter<Encoder>& operator*() { return encoder_; }
    FieldWriter<Encoder>* operator->() { return &encoder_; }
    std::string finish() {
        const size_t used = encoder_.size();
        encoder_.number(crc32c(memory().first(used)));
        text_.resize(used + sizeof(uint32_t));
        return std::move(text_);
    }

  private:
    Bytes memory() { return std::as_writable_bytes(std::span(text_.data(), text_.size())); }
    std::string text_;
    FieldWriter<Encoder> encoder_;
};

// The fields of a value with a valid CRC; `tag` is the kind that it claims.
struct Opened {
    uint8_t tag, version;
    FieldReader fields;
};
Result<Opened> open(std::string_view value) {
    if (value.size() < 6) return fail(Code::corrupt);
    uint32_t crc = 0;
    std::memcpy(&crc, value.data() + value.size() - sizeof crc, sizeof crc);
    value.remove_suffix(sizeof crc);
    if (crc32c(as_bytes(value)) != crc) return fail(Code::corrupt);
    FieldReader fields(as_bytes(value));
    const auto tag = fields.number<uint8_t>();
    const auto version = fields.number<uint8_t>();
    const uint8_t newest = tag == tag_container ? container_version
                           : tag == tag_meta    ? meta_version
                                                : version_value;
    if (version < version_value || version > newest) return fail(Code::bad_version, version);
    return Opened{tag, version, fields};
}
Result<FieldReader> open(std::string_view value, uint8_t tag) {
    ROS2S_TRY_ASSIGN(Opened opened, open(value));
    if (opened.tag != tag) return fail(Code::corrupt);
    return opened.fields;
}

template <class Value>
std::string encode_fields(uint8_t tag, const Value& value, auto fields,
                          uint8_t version = version_value) {
    Builder built(tag, measured(fields, value), version);
    fields(*built, value);
    return built.finish();
}
template <class Value>
Result<Value> decode_fields(uint8_t tag, std::string_view text, auto fields) {
    ROS2S_TRY_ASSIGN(FieldReader reader, open(text, tag));
    Value value;
    fields(reader, value);
    if (!reader.done()) return fail(Code::corrupt);
    return value;
}

int64_t to_ns(WallTime time) { return time.time_since_epoch().count(); }
WallTime from_ns(int64_t ns) { return WallTime{Duration{ns}}; }

struct Run {
    uint16_t first, count;
    uint64_t address;
};

void encode_map(Encoder& encoder, const BlockMap& map) {
    std::array<Run, segment_blocks> runs;
    uint16_t count = 0;
    for (uint32_t i = 0; i < map.end(); ++i) {
        const BlockAddress address = map.at(i).address;
        if (address.is_hole()) continue;
        if (count > 0) {
            Run& last = runs[count - 1U];
            if (last.first + last.count == static_cast<int>(i) &&
                last.address + last.count == address.value) {
                ++last.count;
                continue;
            }
        }
        runs[count++] = {static_cast<uint16_t>(i), 1, address.value};
    }
    encoder.number(count);
    for (uint16_t i = 0; i < count; ++i) {
        encoder.number(runs[i].first);
        encoder.number(runs[i].count);
        encoder.number(runs[i].address);
        for (uint32_t k = 0; k < runs[i].count; ++k) encoder.number(map.at(runs[i].first + k).crc);
    }
}
bool decode_map(Decoder& decoder, BlockMap& map) {
    const auto runs = decoder.number<uint16_t>();
    uint32_t next = 0;
    for (uint16_t r = 0; r < runs; ++r) {
        const auto first = decoder.number<uint16_t>();
        const auto count = decoder.number<uint16_t>();
        const BlockAddress address{decoder.number<uint64_t>()};
        if (!decoder.ok() || count == 0 || address.is_hole()) return false;
        if (first < next || first + count > static_cast<int>(segment_blocks)) return false;
        for (uint32_t i = 0; i < count; ++i) {
            map.set(first + i, {address + i, decoder.number<uint32_t>()});
        }
        next = first + uint32_t{count};
    }
    return decoder.ok();
}
size_t map_bytes_max(const BlockMap& map) {
    const size_t seal = map.has_seals() ? object::seal_bytes : 0;
    return 2 + map.used() * (12 + sizeof(uint32_t) + seal);
}

// Of the blocks that are not holes.
void encode_seals(Encoder& encoder, const BlockMap& map) {
    for (uint32_t i = 0; i < map.end(); ++i) {
        if (!map.at(i).address.is_hole()) encoder.raw(map.seal(i).data(), object::seal_bytes);
    }
}
bool decode_seals(Decoder& decoder, BlockMap& map) {
    std::array<char, object::seal_bytes> seal{};
    for (uint32_t i = 0; i < map.end() && decoder.ok(); ++i) {
        if (map.at(i).address.is_hole()) continue;
        decoder.raw(seal.data(), seal.size());
        map.set_seal(i, {seal.data(), seal.size()});
    }
    return decoder.ok() && map.used() > 0;
}
bool has_seals(const BlockMap& map) { return map.has_seals() && map.used() > 0; }

Result<EntryValue> decode_entry(std::string_view value, bool with_map) {
    ROS2S_TRY_ASSIGN(Opened opened, open(value));
    FieldReader& fields = opened.fields;
    if (opened.tag < 1 || opened.tag > 3) return fail(Code::corrupt);
    EntryValue entry{.kind = static_cast<EntryValue::Kind>(opened.tag)};
    const auto flags = fields.number<uint16_t>();
    if ((flags & ~flags_known) != 0) return fail(Code::bad_version);
    if (entry.kind != EntryValue::Kind::segment) {
        entry.size = fields.number<uint64_t>();
        entry.epoch = {fields.number<uint64_t>()};
        entry.time = from_ns(fields.number<int64_t>());
        if (entry.size > object::array_bytes_max) return fail(Code::corrupt);
    }
    if (entry.kind == EntryValue::Kind::single) {
        fields.text("value", entry.single, object::value_bytes_max);
        if (entry.single.size() != entry.size) return fail(Code::corrupt);
    } else if (!with_map) {
        return entry;
    } else if (!decode_map(fields, entry.map) ||
               ((flags & flag_seals) != 0 && !decode_seals(fields, entry.map))) {
        return fail(Code::corrupt);
    }
    if (!fields.done()) return fail(Code::corrupt);
    return entry;
}

}  // namespace

std::string encode(const EntryValue& entry) {
    Builder value(static_cast<uint8_t>(entry.kind),
                  64 + entry.single.size() + map_bytes_max(entry.map));
    value->number(has_seals(entry.map) ? flag_seals : uint16_t{0});
    if (entry.kind != EntryValue::Kind::segment) {
        value->number(entry.kind == EntryValue::Kind::single ? uint64_t{entry.single.size()}
                                                             : entry.size);
        value->number(entry.epoch.value);
        value->number(to_ns(entry.time));
    }
    if (entry.kind == EntryValue::Kind::single) {
        value->text("value", entry.single, object::value_bytes_max);
    } else {
        encode_map(*value, entry.map);
        if (has_seals(entry.map)) encode_seals(*value, entry.map);
    }
    return value.finish();
}
Result<EntryValue> decode_entry(std::string_view value) { return decode_entry(value, true); }
Result<EntryValue> decode_entry_head(std::string_view value) { return decode_entry(value, false); }

std::string encode(const SummaryValue& summary) {
    return encode_fields(tag_summary, summary, summary_fields);
}
Result<SummaryValue> decode_summary(std::string_view value) {
    return decode_fields<SummaryValue>(tag_summary, value, summary_fields);
}

std::string encode(const ReplyValue& reply) {
    return encode_fields(tag_reply, reply, reply_fields);
}
Result<ReplyValue> decode_reply(std::string_view value) {
    return decode_fields<ReplyValue>(tag_reply, value, reply_fields);
}

std::string encode(const OwnerValue& owner) {
    return encode_fields(tag_owner, owner, owner_fields);
}
Result<OwnerValue> decode_owner(std::string_view value) {
    return decode_fields<OwnerValue>(tag_owner, value, owner_fields);
}

std::string encode(const ContainerValue& container) {
    return encode_fields(tag_container, container, container_fields, container_version);
}
Result<ContainerValue> decode_container(std::string_view value) {
    ROS2S_TRY_ASSIGN(const Opened opened, open(value));
    if (opened.version == container_version) {
        return decode_fields<ContainerValue>(tag_container, value, container_fields);
    }
    ROS2S_TRY_ASSIGN(ContainerValue old,
                     decode_fields<ContainerValue>(tag_container, value, container_fields_v1));
    old.counted = false;
    return old;
}

std::string encode(const MetaValue& meta) {
    return encode_fields(tag_meta, meta, meta_fields, meta_version);
}
Result<MetaValue> decode_meta(std::string_view value) {
    ROS2S_TRY_ASSIGN(const Opened opened, open(value));
    ROS2S_TRY_ASSIGN(MetaValue meta, decode_fields<MetaValue>(tag_meta, value, meta_fields));
    if (std::max(meta.applied, meta.next_epoch) > counter_max) return fail(Code::corrupt);
    meta.by_sender = opened.version == meta_version;
    return meta;
}

std::string encode_space(std::string_view bits) {
    Builder value(tag_space, bits.size());
    value->raw(bits.data(), bits.size());
    return value.finish();
}
Result<std::string_view> decode_space(std::string_view value) {
    ROS2S_TRY_ASSIGN(const FieldReader fields, open(value, tag_space));
    return value.substr(2, fields.left());
}

}  // namespace ros2s::engine
