// Any bytes as a record of keys. They are refused, or encode() of the result gives the same bytes.
#include "key_record.h"
#include "ros2s/base/check.h"

using namespace ros2s;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const ConstBytes bytes = std::as_bytes(std::span(data, size));
    const auto record = cipher::decode_key_record(bytes);
    if (!record) {
        const Code code = record.error().code;
        ROS2S_CHECK(code == Code::corrupt || code == Code::bad_version);
        return 0;
    }
    ROS2S_CHECK(cipher::encode(*record) == as_text(bytes));
    return 0;
}
