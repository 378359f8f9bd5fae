// Providers without one-sided transfers send these packets. Put and get are made of them there
// (docs/formats/fabric.md). A frame holds several, one after the other.
#pragma once
#include <cstdint>
#include <type_traits>

#include "ros2s/fabric/key.h"

namespace ros2s::fabric {

struct Packet {
    enum class Type : uint8_t {
        message = 1,  // a piece of a message: operation = the message's size, offset = its position
        put = 2,   // key, then bytes for `offset` in its range; count = bytes from there to the end
        get = 3,   // key; requests `count` bytes at `offset`
        got = 4,   // bytes at `offset` of those requested
        done = 5,  // put or get `operation` ended; result = 0 or why it was refused, plus 1
        credit = 6,   // `count` bytes of messages were released
        goodbye = 7,  // nothing follows
        // For an adapter that moves the bytes of put and get.
        granted = 8,   // key; for `count` nanoseconds, or Packet::for_ever
        revoke = 9,    // of slot `operation`, generation `count`
        revoked = 10,  // the same: no transfer of it is in progress or will begin
    };
    static constexpr uint8_t flag_last = 1;    // put: the operation's last piece
    static constexpr uint8_t flag_answer = 2;  // put: wants `done`
    static constexpr uint64_t for_ever = ~uint64_t{0};

    Type type{};
    uint8_t flags = 0;
    uint16_t result = 0;
    uint32_t length = 0;     // bytes that follow this header
    uint64_t operation = 0;  // the initiator's number for a put or get
    uint64_t offset = 0;
    uint64_t count = 0;
};
static_assert(sizeof(Packet) == 32 && std::has_unique_object_representations_v<Packet>);

inline constexpr size_t frame_bytes = size_t{60} << 10;

// Returns true if the fields agree with the type. The header may be any bytes.
[[nodiscard]] bool makes_sense(const Packet& header) noexcept;

// A packet of a frame, decoded: every field agrees with its type and with the bytes that follow.
struct PacketView {
    Packet header;
    RemoteKey key;  // put, get, granted; the table of regions checks its integrity
    ConstBytes bytes;
};
// Takes the first packet from any bytes. Errors: corrupt.
[[nodiscard]] Result<PacketView> take_packet(ConstBytes& frame);

}  // namespace ros2s::fabric
