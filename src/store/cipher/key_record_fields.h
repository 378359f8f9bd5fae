// The bytes of a KeyRecord, field by field.
#pragma once
#include "key_record.h"
#include "ros2s/base/fields.h"

namespace ros2s::cipher {

// `suite` and `reserved` must have a value that the reader supports.
struct KeyRecordHead {
    uint8_t version = 0;  // 1: Layout::cells, 2: Layout::seals
    uint8_t suite = 1;    // AES key wrap (RFC 3394) with 256 bits
    uint8_t reserved = 0;
};

inline constexpr auto key_version_fields = [](auto& io, auto& each) {
    io("version", each.version);
    io.known("length of the wrapped key", uint32_t{wrapped_bytes});
    io.bytes("wrapped key", each.wrapped);
};
inline constexpr auto key_record_fields = [](auto& io, auto& record, auto& head) {
    io.known("magic", uint8_t{'K'});
    io("record version", head.version);
    io("suite", head.suite);
    io("reserved", head.reserved);
    io("current version", record.current);
    io("id", record.id);
    io.text("wrapping key", record.wrapping, object::label_bytes_max);
    io.list("versions", record.versions, KeyRecord::versions_max, key_version_fields);
};

}  // namespace ros2s::cipher
