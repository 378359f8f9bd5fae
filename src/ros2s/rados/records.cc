#include "records.h"

#include <algorithm>

#include "ros2s/base/crc32c.h"
#include "ros2s/object/checksum.h"

namespace ros2s::rados {
namespace {

constexpr uint8_t version_value = 1;
// Of a segment with bytes in the omap. Programs that know only version 1 would look for them in the
// data pool.
constexpr uint8_t version_in_omap = 2;
constexpr uint64_t many = UINT32_MAX;
constexpr size_t name_bytes = 2048, key_bytes = 4096, value_bytes = size_t{1} << 30;

constexpr auto fields_of(const Head*) {
    return [](auto& io, auto& head) {
        io("epoch", head.epoch);
        io("change", head.change);
        io("entries", head.entries);
        io("transaction", head.lock.transaction);
        io.text("coordinator", head.lock.coordinator, name_bytes);
        io.text("key", head.lock.key, key_bytes);
        io("created", head.lock.created);
    };
}
constexpr auto fields_of(const Column*) {
    return [](auto& io, auto& column) {
        io("entries", column.entries);
        io("blocks", column.blocks);
        io("last_epoch", column.last_epoch);
        io("last_time", column.last_time);
    };
}
constexpr auto fields_of(const InlineBytes*) {
    return [](auto& io, auto& count) { io("bytes", count.bytes); };
}
constexpr auto fields_of(const Entry*) {
    return [](auto& io, auto& entry) {
        io("is_array", entry.is_array);
        io("epoch", entry.epoch);
        io("size", entry.size);
        io("blocks", entry.blocks);
        io.text("value", entry.value, object::value_bytes_max);
    };
}
constexpr auto run_fields = [](auto& io, auto& run) {
    io("time", run.data.time);
    io("store", run.data.store);
    io("number", run.data.number);
    io("offset", run.offset);
    io("length", run.length);
    io.numbers("checksums", run.checksums);
};
constexpr auto visible_fields = [](auto& io, auto& visible) {
    io("offset", visible.offset);
    io("length", visible.length);
    io("run", visible.run);
};
constexpr auto fields_of(const Segment*) {
    return [](auto& io, auto& segment) {
        io.list("runs", segment.runs, many, run_fields);
        io.list("visible", segment.visible, many, visible_fields);
    };
}
constexpr auto fields_of(const Pending*) {
    return [](auto& io, auto& pending) {
        io.list("set", pending.set, many, [](auto& in, auto& set) {
            in.text("key", set.key, key_bytes);
            in.text("value", set.value, value_bytes);
        });
        io.list("remove", pending.remove, many,
                [](auto& in, auto& remove) { in.text("key", remove.key, key_bytes); });
    };
}
constexpr auto fields_of(const Coordination*) {
    return [](auto& io, auto& record) {
        io.choice("state", record.state, Coordination::State::committed);
        io("transaction", record.transaction);
        io("sequence", record.sequence);
        io("digest", record.digest);
        io("epoch", record.epoch);
        io("time", record.time);
        io.list("participants", record.participants, many,
                [](auto& in, auto& each) { in.text("name", each.name, name_bytes); });
        io.text("before", record.before, value_bytes);
    };
}
constexpr auto fields_of(const PoolRecord*) {
    return [](auto& io, auto& record) {
        io("id", record.id);
        io.text("data", record.data, name_bytes);
    };
}
constexpr auto fields_of(const ClockRecord*) {
    return [](auto& io, auto& record) { io("epoch", record.epoch); };
}
constexpr auto fields_of(const ContainerValue*) {
    return [](auto& io, auto& record) {
        io("id", record.id);
        io("chunk_bytes", record.chunk_bytes);
        io("created", record.created);
        io.text("owner", record.owner, object::owner_bytes_max);
    };
}

template <class Record>
uint8_t version_of(const Record& /*record*/) {
    return version_value;
}
uint8_t version_of(const Segment& segment) {
    const bool is_in_omap =
        std::ranges::any_of(segment.runs, [](const Run& run) { return run.data.is_inline(); });
    return is_in_omap ? version_in_omap : version_value;
}
template <class Record>
constexpr uint8_t newest_version = version_value;
template <>
constexpr uint8_t newest_version<Segment> = version_in_omap;

template <class Record>
std::string encode_record(char tag, const Record& record) {
    const auto fields = fields_of(&record);
    FieldWriter<Measure> measure;
    fields(measure, record);
    std::string value(measure.size() + 2 + sizeof(uint32_t), '\0');
    const Bytes memory = std::as_writable_bytes(std::span(value.data(), value.size()));
    FieldWriter<Encoder> out(memory);
    out.number(tag);
    out.number(version_of(record));
    fields(out, record);
    out.number(crc32c(memory.first(out.size())));
    return value;
}

template <class Record>
Result<> decode_record(char tag, std::string_view value, Record& record) {
    uint32_t crc = 0;
    if (value.size() < 2 + sizeof crc) return fail(Code::corrupt);
    std::memcpy(&crc, value.data() + value.size() - sizeof crc, sizeof crc);
    value.remove_suffix(sizeof crc);
    if (crc32c(as_bytes(value)) != crc) return fail(Code::corrupt);
    FieldReader in(as_bytes(value));
    const bool is_ours = in.number<char>() == tag;
    const auto version = in.number<uint8_t>();
    if (!is_ours) return fail(Code::corrupt);
    if (version < version_value || version > newest_version<Record>) {
        return fail(Code::bad_version, version);
    }
    record = {};
    fields_of (&record)(in, record);
    return in.done() ? Result<>() : fail(Code::corrupt);
}

// What readers of a segment rely on: runs have as many checksums as pieces and lie in one segment;
// the visible parts are ascending and within their runs.
bool is_sound(const Segment& segment) {
    for (const Run& run : segment.runs) {
        if (run.length == 0 || run.length > segment_bytes) return false;
        if (run.offset > object::array_bytes_max - run.length) return false;
        if (run.offset / segment_bytes != (run.offset + run.length - 1) / segment_bytes)
            return false;
        if (run.checksums.size() != object::piece_count(run.offset, run.length)) return false;
    }
    uint64_t end = 0;
    for (const Visible& part : segment.visible) {
        if (part.run >= segment.runs.size() || part.length == 0 || part.offset < end) return false;
        const Run& run = segment.runs[part.run];
        if (part.offset < run.offset || part.length > run.length) return false;
        if (part.offset - run.offset > run.length - part.length) return false;
        end = part.offset + part.length;
    }
    return true;
}

}  // namespace

std::string encode(const Head& record) { return encode_record('H', record); }
std::string encode(const Column& record) { return encode_record('C', record); }
std::string encode(const InlineBytes& record) { return encode_record('B', record); }
std::string encode(const Entry& record) { return encode_record('E', record); }
std::string encode(const Segment& record) { return encode_record('S', record); }
std::string encode(const Pending& record) { return encode_record('P', record); }
std::string encode(const Coordination& record) { return encode_record('T', record); }
std::string encode(const PoolRecord& record) { return encode_record('R', record); }
std::string encode(const ClockRecord& record) { return encode_record('K', record); }
std::string encode(const ContainerValue& record) { return encode_record('N', record); }

Result<> decode(std::string_view value, Head& record) { return decode_record('H', value, record); }
Result<> decode(std::string_view value, Column& record) {
    return decode_record('C', value, record);
}
Result<> decode(std::string_view value, InlineBytes& record) {
    return decode_record('B', value, record);
}
Result<> decode(std::string_view value, Entry& record) { return decode_record('E', value, record); }
Result<> decode(std::string_view value, Segment& record) {
    ROS2S_TRY(decode_record('S', value, record));
    return is_sound(record) ? Result<>() : fail(Code::corrupt);
}
Result<> decode(std::string_view value, Pending& record) {
    return decode_record('P', value, record);
}
Result<> decode(std::string_view value, Coordination& record) {
    return decode_record('T', value, record);
}
Result<> decode(std::string_view value, PoolRecord& record) {
    return decode_record('R', value, record);
}
Result<> decode(std::string_view value, ClockRecord& record) {
    return decode_record('K', value, record);
}
Result<> decode(std::string_view value, ContainerValue& record) {
    return decode_record('N', value, record);
}

}  // namespace ros2s::rados
