#include "values.h"

#include <array>

#include "ros2s/base/codec.h"
#include "ros2s/base/crc32c.h"

namespace ros2s::engine {
namespace {

constexpr uint8_t version_value = 1;
constexpr uint8_t tag_summary = 4, tag_container = 6, tag_meta = 7, tag_space = 8;
// 5 was a reply without a digest, of pools of version 1.
constexpr uint8_t tag_reply = 9, tag_owner = 10;
// Bits of an entry's flags that this version does not set. A later version may add per-block
// authentication tags and a cipher header after the map, and mark them here.
constexpr uint16_t flags_known = 0;

// Adds two bytes before each value and four after it.
class Builder {
  public:
    Builder(uint8_t tag, size_t bytes_max) : text_(bytes_max + 6, '\0'), encoder_(memory()) {
        encoder_.number(tag);
        encoder_.number(version_value);
    }
    Encoder& operator*() { return encoder_; }
    Encoder* operator->() { return &encoder_; }
    std::string finish() {
        const size_t used = encoder_.size();
        encoder_.number(crc32c(memory().first(used)));
        text_.resize(used + sizeof(uint32_t));
        return std::move(text_);
    }

  private:
    Bytes memory() { return std::as_writable_bytes(std::span(text_.data(), text_.size())); }
    std::string text_;
    Encoder encoder_;
};

// The fields of a value with a valid CRC; `tag` is the kind that it claims.
struct Opened {
    uint8_t tag;
    Decoder fields;
};
Result<Opened> open(std::string_view value) {
    if (value.size() < 6) return fail(Code::corrupt);
    uint32_t crc = 0;
    std::memcpy(&crc, value.data() + value.size() - sizeof crc, sizeof crc);
    value.remove_suffix(sizeof crc);
    if (crc32c(as_bytes(value)) != crc) return fail(Code::corrupt);
    Decoder fields(as_bytes(value));
    const auto tag = fields.number<uint8_t>();
    const auto version = fields.number<uint8_t>();
    if (version != version_value) return fail(Code::bad_version, version);
    return Opened{tag, fields};
}
Result<Decoder> open(std::string_view value, uint8_t tag) {
    ROS2S_TRY_ASSIGN(Opened opened, open(value));
    if (opened.tag != tag) return fail(Code::corrupt);
    return opened.fields;
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
size_t map_bytes_max(const BlockMap& map) { return 2 + map.used() * (12 + sizeof(uint32_t)); }

Result<EntryValue> decode_entry(std::string_view value, bool with_map) {
    ROS2S_TRY_ASSIGN(Opened opened, open(value));
    Decoder& fields = opened.fields;
    if (opened.tag < 1 || opened.tag > 3) return fail(Code::corrupt);
    EntryValue entry{.kind = static_cast<EntryValue::Kind>(opened.tag)};
    if ((fields.number<uint16_t>() & ~flags_known) != 0) return fail(Code::bad_version);
    if (entry.kind != EntryValue::Kind::segment) {
        entry.size = fields.number<uint64_t>();
        entry.epoch = {fields.number<uint64_t>()};
        entry.time = from_ns(fields.number<int64_t>());
    }
    if (entry.kind == EntryValue::Kind::single) {
        entry.single = fields.text(object::value_bytes_max);
        if (entry.single.size() != entry.size) return fail(Code::corrupt);
    } else if (!with_map) {
        return entry;
    } else if (!decode_map(fields, entry.map)) {
        return fail(Code::corrupt);
    }
    if (!fields.done()) return fail(Code::corrupt);
    return entry;
}

}  // namespace

std::string encode(const EntryValue& entry) {
    Builder value(static_cast<uint8_t>(entry.kind),
                  64 + entry.single.size() + map_bytes_max(entry.map));
    value->number(uint16_t{0});  // flags
    if (entry.kind != EntryValue::Kind::segment) {
        value->number(entry.kind == EntryValue::Kind::single ? uint64_t{entry.single.size()}
                                                             : entry.size);
        value->number(entry.epoch.value);
        value->number(to_ns(entry.time));
    }
    if (entry.kind == EntryValue::Kind::single) {
        value->text(entry.single);
    } else {
        encode_map(*value, entry.map);
    }
    return value.finish();
}
Result<EntryValue> decode_entry(std::string_view value) { return decode_entry(value, true); }
Result<EntryValue> decode_entry_head(std::string_view value) { return decode_entry(value, false); }

std::string encode(const SummaryValue& summary) {
    Builder value(tag_summary, 64 + summary.highest.size());
    value->number(summary.entries);
    value->number(summary.blocks);
    value->number(summary.last_epoch.value);
    value->number(to_ns(summary.last_time));
    value->number(uint8_t{summary.highest_known});
    value->text(summary.highest);
    return value.finish();
}
Result<SummaryValue> decode_summary(std::string_view value) {
    ROS2S_TRY_ASSIGN(Decoder fields, open(value, tag_summary));
    SummaryValue summary;
    summary.entries = fields.number<uint64_t>();
    summary.blocks = fields.number<uint64_t>();
    summary.last_epoch = {fields.number<uint64_t>()};
    summary.last_time = from_ns(fields.number<int64_t>());
    summary.highest_known = fields.number<uint8_t>() != 0;
    summary.highest = fields.text(object::key_bytes_max);
    if (!fields.done()) return fail(Code::corrupt);
    return summary;
}

std::string encode(const ReplyValue& reply) {
    Builder value(tag_reply, 33);
    value->number(reply.sequence);
    value->number(reply.epoch.value);
    value->number(to_ns(reply.time));
    value->number(reply.digest);
    value->number(uint8_t{reply.whole});
    return value.finish();
}
Result<ReplyValue> decode_reply(std::string_view value) {
    ROS2S_TRY_ASSIGN(Decoder fields, open(value, tag_reply));
    ReplyValue reply;
    reply.sequence = fields.number<uint64_t>();
    reply.epoch = {fields.number<uint64_t>()};
    reply.time = from_ns(fields.number<int64_t>());
    reply.digest = fields.number<uint64_t>();
    const auto whole = fields.number<uint8_t>();
    if (!fields.done() || whole > 1) return fail(Code::corrupt);
    reply.whole = whole == 1;
    return reply;
}

std::string encode(const OwnerValue& owner) {
    Builder value(tag_owner, 8);
    value->number(owner.dropped_upto);
    return value.finish();
}
Result<OwnerValue> decode_owner(std::string_view value) {
    ROS2S_TRY_ASSIGN(Decoder fields, open(value, tag_owner));
    const OwnerValue owner{.dropped_upto = fields.number<uint64_t>()};
    if (!fields.done()) return fail(Code::corrupt);
    return owner;
}

std::string encode(const ContainerValue& container) {
    Builder value(tag_container, 32 + container.properties.label.size());
    value->text(container.properties.label);
    value->number(container.properties.chunk_bytes);
    value->number(to_ns(container.created));
    value->number(uint8_t{container.retired});
    return value.finish();
}
Result<ContainerValue> decode_container(std::string_view value) {
    ROS2S_TRY_ASSIGN(Decoder fields, open(value, tag_container));
    ContainerValue container;
    container.properties.label = fields.text(127);
    container.properties.chunk_bytes = fields.number<uint64_t>();
    container.created = from_ns(fields.number<int64_t>());
    container.retired = fields.number<uint8_t>() != 0;
    if (!fields.done()) return fail(Code::corrupt);
    return container;
}

std::string encode(const MetaValue& meta) {
    Builder value(tag_meta, 48);
    value->uuid(meta.pool);
    value->number(meta.applied);
    value->number(meta.next_epoch);
    value->number(meta.wall_time_ns);
    value->number(meta.replies_dropped_upto);
    return value.finish();
}
Result<MetaValue> decode_meta(std::string_view value) {
    ROS2S_TRY_ASSIGN(Decoder fields, open(value, tag_meta));
    MetaValue meta;
    meta.pool = fields.uuid();
    meta.applied = fields.number<uint64_t>();
    meta.next_epoch = fields.number<uint64_t>();
    meta.wall_time_ns = fields.number<int64_t>();
    meta.replies_dropped_upto = fields.number<uint64_t>();
    if (!fields.done()) return fail(Code::corrupt);
    return meta;
}

std::string encode_space(std::string_view bits) {
    Builder value(tag_space, bits.size());
    value->raw(bits.data(), bits.size());
    return value.finish();
}
Result<std::string_view> decode_space(std::string_view value) {
    ROS2S_TRY_ASSIGN(const Decoder fields, open(value, tag_space));
    return value.substr(2, fields.left());
}

}  // namespace ros2s::engine
