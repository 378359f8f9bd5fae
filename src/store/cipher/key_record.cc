#include "key_record.h"

#include <algorithm>

#include "key_record_fields.h"

namespace ros2s::cipher {
namespace {

constexpr uint8_t version_cells = 1, version_seals = 2;  // by layout

}  // namespace

std::string encode(const KeyRecord& record) {
    const KeyRecordHead head{.version =
                                 record.layout == Layout::seals ? version_seals : version_cells};
    return written(key_record_fields, record, head);
}

Result<KeyRecord> decode_key_record(ConstBytes bytes) {
    KeyRecord record;
    KeyRecordHead head, known;
    FieldReader in(bytes);
    key_record_fields(in, record, head);
    if (head.version > version_seals) return fail(Code::bad_version, head.version);
    if (head.suite > known.suite) return fail(Code::bad_version, head.suite);
    if (head.reserved != known.reserved) return fail(Code::bad_version, head.reserved);
    record.layout = head.version == version_seals ? Layout::seals : Layout::cells;
    const bool ascends = std::ranges::is_sorted(record.versions, std::ranges::less_equal{},
                                                &KeyRecord::Version::version);
    const bool has_current =
        std::ranges::find(record.versions, record.current, &KeyRecord::Version::version) !=
        record.versions.end();
    if (!in.done() || head.version == 0 || head.suite == 0 || !ascends || !has_current ||
        !object::is_valid_label(record.wrapping)) {
        return fail(Code::corrupt);
    }
    return record;
}

}  // namespace ros2s::cipher
