// Any bytes as a capability or as a request for one. They are refused, or encode() of the result
// gives the same bytes. No chain of them is accepted.
#include "ros2s/base/check.h"
#include "ros2s/capability/chain.h"

using namespace ros2s;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const std::string bytes(reinterpret_cast<const char*>(data), size);
    if (const auto decoded = capability::decode(bytes)) {
        ROS2S_CHECK(capability::encode(*decoded) == capability::signed_part(bytes));
        std::string why;
        const capability::Expected expected{.audience = decoded->audience,
                                            .issuers = {capability::PublicKey{1}},
                                            .now = decoded->not_before};
        ROS2S_CHECK(!capability::verify({bytes}, expected, why) && !why.empty());
    }
    if (const auto wanted = capability::decode_request(bytes)) {
        ROS2S_CHECK(capability::encode(*wanted) == bytes);
    }
    return 0;
}
