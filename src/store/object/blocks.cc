#include "blocks.h"

#include <cstring>

#include "object_store.h"

namespace ros2s::object {
namespace {

template <class Record>
std::optional<Record> parse(ConstBytes value) {
    Record record;
    if (value.size() != sizeof record) return std::nullopt;
    std::memcpy(&record, value.data(), sizeof record);
    const bool is_known = record.magic == Record::kind && record.version == Record{}.version;
    return is_known ? std::optional(record) : std::nullopt;
}

}  // namespace

std::optional<BlockHead> parse_block_head(ConstBytes value) {
    const auto head = parse<BlockHead>(value);
    return head && head->length <= block_length_max ? head : std::nullopt;
}

std::optional<CacheRecord> parse_cache_record(ConstBytes value) {
    return parse<CacheRecord>(value);
}

std::optional<PinRecord> parse_pin_record(ConstBytes value) {
    const auto record = parse<PinRecord>(value);
    const auto longest = static_cast<uint64_t>(pin_length_max.count());
    const bool is_right = record && record->length_ns > 0 && record->length_ns <= longest;
    return is_right ? record : std::nullopt;
}

uint64_t block_use(std::string_view key, uint64_t length) {
    const uint64_t data = (length + block_bytes - 1) / block_bytes * block_bytes;
    const uint64_t akeys = 2 * (akey_bytes + key.size()) + block_head_akey().bytes.size() +
                           block_data_akey().bytes.size();
    return data + akeys + sizeof(BlockHead);
}

}  // namespace ros2s::object
