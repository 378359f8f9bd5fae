// Any bytes as a frame: each decoded packet is whole and within the frame.
#include "ros2s/base/check.h"
#include "ros2s/fabric/packet/packet.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace ros2s;
    ConstBytes frame{reinterpret_cast<const std::byte*>(data), size};
    const ConstBytes whole = frame;
    while (!frame.empty()) {
        const auto packet = fabric::take_packet(frame);
        if (!packet) break;
        ROS2S_CHECK(packet->bytes.empty() ||
                    (packet->bytes.data() >= whole.data() &&
                     packet->bytes.data() + packet->bytes.size() <= whole.data() + whole.size()));
        if (packet->header.type == fabric::Packet::Type::message) {
            ROS2S_CHECK(packet->header.offset + packet->bytes.size() <= packet->header.operation);
        }
        (void)packet->key.check();
    }
    return 0;
}
