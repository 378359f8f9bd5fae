#include "object_store.h"

#include "ros2s/base/check.h"

namespace ros2s::object {

std::string object_key(ObjectId object) {
    return Dkey::integer(object.high).bytes + Dkey::integer(object.low).bytes;
}

ObjectId parse_object_key(std::string_view key) {
    ROS2S_CHECK(key.size() == 16);
    return {.high = Dkey{std::string(key.substr(0, 8))}.number(),
            .low = Dkey{std::string(key.substr(8))}.number()};
}

bool is_valid_label(std::string_view label) {
    if (label.empty() || label.size() > 127 || label == "." || label == "..") return false;
    for (const char c : label) {
        const bool ok = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
                        (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
        if (!ok) return false;
    }
    return true;
}

}  // namespace ros2s::object
