// Any bytes as an index key: an accepted key equals the one that the builder makes of its fields.
#include "keys.h"

#include "ros2s/base/check.h"

using namespace ros2s;
using namespace ros2s::engine;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const std::string_view key(reinterpret_cast<const char*>(data), size);
    if (const auto k = parse_entry_key(key))
        ROS2S_CHECK(entry_key(k->container, k->object, k->dkey, k->akey, k->segment).view() == key);
    if (const auto k = parse_summary_key(key))
        ROS2S_CHECK(summary_key(k->container, k->object, k->akey).view() == key);
    if (const auto k = parse_space_key(key))
        ROS2S_CHECK(space_key(k->device, k->region).view() == key);
    if (const auto k = parse_reply_key(key)) ROS2S_CHECK(reply_key(*k).view() == key);
    if (const auto k = parse_owner_key(key)) ROS2S_CHECK(owner_key(*k).view() == key);
    if (const auto k = parse_container_key(key)) ROS2S_CHECK(container_key(*k).view() == key);
    const std::string end = prefix_end(key);
    ROS2S_CHECK(end.empty() || end > key);
    return 0;
}
