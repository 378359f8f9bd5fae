// Lanes send two structures besides packets (docs/formats/fabric.md): a greeting, with the second
// hello of an admitted peer, and a header before each frame.
#pragma once
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "ros2s/base/bytes.h"
#include "ros2s/base/crc32c.h"
#include "ros2s/base/result.h"

namespace ros2s::fabric::lanes {

// Follows the hello. The sender's worker address follows it.
struct Greeting {
    // UCX's have 50 to 215 bytes, libfabric's 16 or 28. A longer one is refused.
    static constexpr uint32_t address_bytes_max = 4096;

    uint64_t channel = 0;  // random; frames for this session carry it
    uint32_t address_bytes = 0;
    uint32_t address_crc = 0;  // CRC32C: the libraries do not check what they unpack
};
static_assert(sizeof(Greeting) == 16 && std::has_unique_object_representations_v<Greeting>);

// The header of each message of the library; its data is a frame. The first message in each
// direction has no data. It shows that the peer can be reached.
struct FrameHeader {
    static constexpr uint32_t magic_value = 0x58553252;  // "R2UX"
    static constexpr uint16_t current_version = 1;

    uint32_t magic = magic_value;
    uint16_t version = current_version;
    uint16_t reserved = 0;
    uint64_t channel = 0;   // of the receiver
    uint64_t sequence = 0;  // 0, 1, 2, …
};
static_assert(sizeof(FrameHeader) == 24 && std::has_unique_object_representations_v<FrameHeader>);

struct PeerAddress {
    uint64_t channel = 0;
    std::vector<std::byte> address;
};
[[nodiscard]] inline std::vector<std::byte> encode_greeting(uint64_t channel, ConstBytes address) {
    const Greeting greeting{.channel = channel,
                            .address_bytes = static_cast<uint32_t>(address.size()),
                            .address_crc = crc32c(address)};
    std::vector<std::byte> bytes(sizeof greeting + address.size());
    std::memcpy(bytes.data(), &greeting, sizeof greeting);
    std::memcpy(bytes.data() + sizeof greeting, address.data(), address.size());
    return bytes;
}
// Any bytes. Errors: corrupt.
[[nodiscard]] inline Result<PeerAddress> decode_greeting(ConstBytes bytes) {
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
