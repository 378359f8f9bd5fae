#include "ros2s/fabric/lanes/greeting.h"

#include <cstring>

#include "ros2s/base/crc32c.h"

namespace ros2s::fabric::lanes {

std::vector<std::byte> encode_greeting(uint64_t channel, ConstBytes address) {
    const Greeting greeting{.channel = channel,
                            .address_bytes = static_cast<uint32_t>(address.size()),
                            .address_crc = crc32c(address)};
    std::vector<std::byte> bytes(sizeof greeting + address.size());
    std::memcpy(bytes.data(), &greeting, sizeof greeting);
    std::memcpy(bytes.data() + sizeof greeting, address.data(), address.size());
    return bytes;
}

Result<PeerAddress> decode_greeting(ConstBytes bytes) {
    Greeting greeting;
    if (bytes.size() < sizeof greeting) return fail(Code::corrupt);
    std::memcpy(&greeting, bytes.data(), sizeof greeting);
    const ConstBytes address = bytes.subspan(sizeof greeting);
    if (address.empty() || address.size() > Greeting::address_bytes_max ||
        address.size() != greeting.address_bytes || crc32c(address) != greeting.address_crc) {
        return fail(Code::corrupt);
    }
    return PeerAddress{greeting.channel, {address.begin(), address.end()}};
}

}  // namespace ros2s::fabric::lanes
