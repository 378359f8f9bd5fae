#include "key_record.h"

#include <algorithm>

#include "ros2s/base/codec.h"

namespace ros2s::cipher {
namespace {

constexpr uint8_t magic = 'K';
constexpr uint8_t version_cells = 1, version_seals = 2;  // by layout
constexpr uint8_t suite_known = 1;                       // AES key wrap (RFC 3394) with 256 bits

}  // namespace

std::string encode(const KeyRecord& record) {
    std::string bytes(KeyRecord::bytes_max, '\0');
    Encoder encoder(std::as_writable_bytes(std::span(bytes)));
    encoder.number(magic);
    encoder.number(record.layout == Layout::seals ? version_seals : version_cells);
    encoder.number(suite_known);
    encoder.number(uint8_t{0});
    encoder.number(record.current);
    encoder.uuid(record.id);
    encoder.text(record.wrapping);
    encoder.number(static_cast<uint32_t>(record.versions.size()));
    for (const KeyRecord::Version& each : record.versions) {
        encoder.number(each.version);
        encoder.text(as_text(each.wrapped));
    }
    bytes.resize(encoder.size());
    return bytes;
}

Result<KeyRecord> decode_key_record(ConstBytes bytes) {
    Decoder decoder(bytes);
    if (decoder.number<uint8_t>() != magic) return fail(Code::corrupt);
    const auto version = decoder.number<uint8_t>();
    if (decoder.ok() && version != version_cells && version != version_seals) {
        return fail(Code::bad_version, version);
    }
    for (const uint8_t known : {suite_known, uint8_t{0}}) {
        const auto found = decoder.number<uint8_t>();
        if (decoder.ok() && found != known) return fail(Code::bad_version, found);
    }
    KeyRecord record;
    record.layout = version == version_seals ? Layout::seals : Layout::cells;
    record.current = decoder.number<uint32_t>();
    record.id = decoder.uuid();
    record.wrapping = decoder.text(object::label_bytes_max);
    const auto count = decoder.number<uint32_t>();
    if (!decoder.ok() || count == 0 || count > KeyRecord::versions_max) return fail(Code::corrupt);
    for (uint32_t i = 0; i < count; ++i) {
        KeyRecord::Version& each = record.versions.emplace_back();
        each.version = decoder.number<uint32_t>();
        const std::string_view wrapped = decoder.text(wrapped_bytes);
        if (wrapped.size() != wrapped_bytes) return fail(Code::corrupt);
        std::ranges::copy(as_bytes(wrapped), each.wrapped.begin());
    }
    const bool ascends = std::ranges::is_sorted(record.versions, std::ranges::less_equal{},
                                                &KeyRecord::Version::version);
    const bool has_current =
        std::ranges::find(record.versions, record.current, &KeyRecord::Version::version) !=
        record.versions.end();
    if (!decoder.done() || !ascends || !has_current || !object::is_valid_label(record.wrapping)) {
        return fail(Code::corrupt);
    }
    return record;
}

}  // namespace ros2s::cipher
