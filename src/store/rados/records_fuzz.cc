// Any bytes as a value of an omap, or as the name of a key or an object: it is refused, or is what
// encode() makes of the result. The fuzzer cannot guess checksums, so they are set right for it.
#include <cstring>

#include "keys.h"
#include "records.h"
#include "ros2s/base/check.h"
#include "ros2s/base/crc32c.h"

using namespace ros2s;
using namespace ros2s::rados;

namespace {

template <class Record>
void check_value(std::string_view value) {
    Record record;
    const auto decoded = decode(value, record);
    if (decoded) {
        // But for the version and the CRC: a head or segment may be of either version.
        const std::string again = encode(record);
        ROS2S_CHECK(again[0] == value[0] && again.size() == value.size());
        ROS2S_CHECK(again.substr(2, again.size() - 6) == value.substr(2, value.size() - 6));
        return;
    }
    const Code code = decoded.error().code;
    ROS2S_CHECK(code == Code::corrupt || code == Code::bad_version);
}

void check_values(std::string_view value) {
    check_value<Head>(value);
    check_value<Column>(value);
    check_value<InlineBytes>(value);
    check_value<Entry>(value);
    check_value<Segment>(value);
    check_value<Pending>(value);
    check_value<Coordination>(value);
    check_value<PoolRecord>(value);
    check_value<ClockRecord>(value);
    check_value<ContainerValue>(value);
}

void check_names(std::string_view name) {
    std::string_view rest = name;
    if (const auto bytes = unescape(rest)) {
        ROS2S_CHECK(escape(*bytes) + std::string(rest) == name);
    }
    if (const auto key = parse_entry_key(name)) {
        const std::string entry = entry_key(key->dkey, key->akey);
        const std::string same = key->segment ? segment_key(entry, *key->segment) : entry;
        ROS2S_CHECK(same.size() == name.size());  // digits may be capitals
        ROS2S_CHECK(name.starts_with(entry));
    }
    const object::Akey akey{"data"};
    const std::string prefix = reverse_prefix(akey);
    if (const auto dkey = dkey_of_reverse_key(prefix + std::string(name), prefix)) {
        ROS2S_CHECK(reverse_key(*dkey, akey) == prefix + std::string(name));
    }
    if (const auto object = parse_object_name(name)) {
        ROS2S_CHECK(object_name(*object).size() == name.size());
    }
    if (const auto data = parse_data_name(name)) {
        ROS2S_CHECK(data_name(data->object, data->id).size() == name.size());
    }
    (void)is_log_name(name);
    (void)change_of_decision_key(name);
    if (const auto place = place_of_reply_key(name)) {
        ROS2S_CHECK(is_replies_name(place->replies));
        ROS2S_CHECK("fn" + place->replies.substr(1) + place->slot.substr(1) == name);
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
    std::string value(reinterpret_cast<const char*>(bytes), size);
    check_names(value);
    check_values(value);
    const uint32_t crc = crc32c(as_bytes(value));
    value.resize(size + sizeof crc);
    std::memcpy(value.data() + size, &crc, sizeof crc);
    check_values(value);
    return 0;
}
