// Any bytes as the value of an index key. The checksum is made valid, so that the fields are
// reached. They are refused, or decoding, encoding and decoding gives the same result.
#include "values.h"

#include <cstring>

#include "ros2s/base/check.h"
#include "ros2s/base/crc32c.h"

using namespace ros2s;
using namespace ros2s::engine;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    std::string value(reinterpret_cast<const char*>(data), size);
    static_cast<void>(decode_entry(value));
    const uint32_t crc = crc32c(as_bytes(value));
    value.append(reinterpret_cast<const char*>(&crc), sizeof crc);

    if (const auto entry = decode_entry(value)) {
        const std::string written = encode(*entry);
        const auto again = decode_entry(written);
        ROS2S_CHECK(again.has_value() && encode(*again) == written);
        ROS2S_CHECK(decode_entry_head(value).has_value());
    }
    if (const auto summary = decode_summary(value))
        ROS2S_CHECK(decode_summary(encode(*summary)) == *summary);
    if (const auto reply = decode_reply(value)) ROS2S_CHECK(encode(*reply) == value);
    if (const auto owner = decode_owner(value)) ROS2S_CHECK(encode(*owner) == value);
    if (const auto container = decode_container(value))
        ROS2S_CHECK(decode_container(encode(*container)).has_value());
    if (auto meta = decode_meta(value)) {
        const auto again = decode_meta(encode(*meta));
        meta->by_sender = true;  // version 1 is written as the newest
        ROS2S_CHECK(again == *meta);
    }
    if (const auto bits = decode_space(value)) ROS2S_CHECK(encode_space(*bits) == value);
    return 0;
}
