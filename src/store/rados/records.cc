#include "records.h"

#include <algorithm>

#include "record_fields.h"
#include "ros2s/base/crc32c.h"
#include "ros2s/object/checksum.h"

namespace ros2s::rados {
namespace {

constexpr uint8_t version_value = 1;
// Of a segment with bytes in the omap. Programs that know only version 1 would look for them in the
// data pool.
constexpr uint8_t version_in_omap = 2;
// Of a head. Programs that know only version 1 would take a transaction for aborted that one of its
// objects decides. Those that know only version 2 would do a write again that is repeated.
constexpr uint8_t version_with_replies = 3;
template <class Record>
uint8_t version_of(const Record& /*record*/) {
    return version_value;
}
uint8_t version_of(const Head& /*head*/) { return version_with_replies; }
uint8_t version_of(const Segment& segment) {
    const bool is_in_omap =
        std::ranges::any_of(segment.runs, [](const Run& run) { return run.data.is_inline(); });
    return is_in_omap ? version_in_omap : version_value;
}
template <class Record>
constexpr uint8_t newest_version = version_value;
template <>
constexpr uint8_t newest_version<Head> = version_with_replies;
template <>
constexpr uint8_t newest_version<Segment> = version_in_omap;

template <class Record>
bool is_sound(const Record& /*record*/) {
    return true;
}
// What readers rely on: a value is as long as its size says, and an array has none.
bool is_sound(const Entry& entry) {
    if (!entry.is_array) return entry.size == entry.value.size();
    return entry.value.empty() && entry.size <= object::array_bytes_max;
}
// What readers of a locked object rely on: the changes include the head, which ends the lock.
bool is_sound(const Pending& pending) { return !pending.set.empty(); }

// What readers of a segment rely on: runs have as many checksums as pieces and lie in one segment,
// all in the same; the visible parts are ascending and within their runs.
bool is_sound(const Segment& segment) {
    for (const Run& run : segment.runs) {
        if (run.offset / segment_bytes != segment.runs[0].offset / segment_bytes) return false;
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

template <class Record>
std::string encode(const Record& record) {
    const auto fields = fields_of(&record);
    std::string value(measured(fields, record) + 2 + sizeof(uint32_t), '\0');
    const Bytes memory = std::as_writable_bytes(std::span(value.data(), value.size()));
    FieldWriter<Encoder> out(memory);
    out.number(Record::tag);
    out.number(version_of(record));
    fields(out, record);
    out.number(crc32c(memory.first(out.size())));
    return value;
}

template <class Record>
Result<> decode(std::string_view value, Record& record) {
    uint32_t crc = 0;
    if (value.size() < 2 + sizeof crc) return fail(Code::corrupt);
    std::memcpy(&crc, value.data() + value.size() - sizeof crc, sizeof crc);
    value.remove_suffix(sizeof crc);
    if (crc32c(as_bytes(value)) != crc) return fail(Code::corrupt);
    FieldReader in(as_bytes(value));
    const bool is_ours = in.number<char>() == Record::tag;
    const auto version = in.number<uint8_t>();
    if (!is_ours) return fail(Code::corrupt);
    if (version < version_value || version > newest_version<Record>) {
        return fail(Code::bad_version, version);
    }
    record = {};
    fields_of (&record)(in, record);
    return in.done() && is_sound(record) ? Result<>() : fail(Code::corrupt);
}

#define ROS2S_RADOS_RECORD(Record)              \
    template std::string encode(const Record&); \
    template Result<> decode(std::string_view, Record&);
ROS2S_RADOS_RECORD(Head)
ROS2S_RADOS_RECORD(Column)
ROS2S_RADOS_RECORD(InlineBytes)
ROS2S_RADOS_RECORD(Entry)
ROS2S_RADOS_RECORD(Segment)
ROS2S_RADOS_RECORD(Pending)
ROS2S_RADOS_RECORD(Coordination)
ROS2S_RADOS_RECORD(PoolRecord)
ROS2S_RADOS_RECORD(ClockRecord)
ROS2S_RADOS_RECORD(ContainerValue)
#undef ROS2S_RADOS_RECORD

}  // namespace ros2s::rados
