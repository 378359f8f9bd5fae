// A session has a control segment and up to 16 segments of payload (docs/formats/shm.md). This
// header describes their contents.
//
// control: a page of indices and flags, each on its own cache lines; the two rings; the table of
// grants, which the client writes and the server reads; the table of uses, which the server writes
// and the client reads.
// payload: the client's memory, and nothing else. The first segment exists as long as the session.
// The client asks for others and returns them. An address in the payload is a segment's number and
// an offset in it.
//
// The server expects any value in any word at any time. It loads each word once and checks it. A
// wrong word can at worst end its own session.
#pragma once
#include <atomic>
#include <cstdint>
#include <type_traits>

#include "ros2s/base/bytes.h"
#include "ros2s/fabric/key.h"

namespace ros2s::fabric::shm {

struct SharedWord {
    uint64_t value;
    uint64_t padding[15];
};
static_assert(sizeof(SharedWord) == 128);

// A further segment of payload, in bytes. The client writes `least`, then `wanted`; the server
// `given`, which is one of these two.
//
//     client: wanted = bytes ─► server: makes it, given = bytes, sends its descriptor
//     client: unmaps it, wanted = 0 ─► server: unmaps it, given = 0: the number is free again
struct SharedSegment {
    uint64_t wanted;
    uint64_t least;
    uint64_t given;
    uint64_t padding;
};
static_assert(sizeof(SharedSegment) == 32);
inline constexpr uint32_t segments_most = 16;

struct ControlPage {
    SharedWord server_wants;  // wants_… : the reasons to wake the server
    SharedWord client_wants;
    SharedWord server_goodbye;  // 1 after a regular close
    SharedWord client_goodbye;
    SharedWord to_server_tail;              // bytes ever written; the client's
    SharedWord to_server_head;              // bytes ever read; the server's
    SharedWord to_client_tail;              // the server's
    SharedWord to_client_head;              // the client's
    SharedWord asks;                        // changes of `wanted`, counted by the client
    SharedWord scarce;                      // 1: others wait for memory (the server's)
    SharedSegment segments[segments_most];  // without the first
};
inline constexpr uint64_t control_page_bytes = 4096;
static_assert(sizeof(ControlPage) <= control_page_bytes);

inline constexpr uint64_t wants_entries = 1;  // something in its ring
inline constexpr uint64_t wants_room = 2;     // room in the other
inline constexpr uint64_t wants_release = 4;  // the end of a use

// Bytes on the socket: a wake-up; the server's byte that comes with the descriptor of a segment is
// segment_byte and its number.
inline constexpr uint8_t wake_byte = 1;
inline constexpr uint8_t segment_byte = 16;

// Addresses in the payload.
inline constexpr uint32_t segment_shift = 48;
[[nodiscard]] constexpr uint64_t payload_address(uint32_t segment, uint64_t offset) {
    return uint64_t{segment} << segment_shift | offset;
}

// Ring entries: a Packet header of type message and its bytes, rounded up to a cache line.
inline constexpr uint64_t entry_alignment = 64;

// One grant. `state` is written last, and cleared first.
struct SharedRegionEntry {
    uint64_t state;    // generation << 32 | rights << 1 | live
    uint64_t address;  // in the payload segment
    uint64_t length;
    uint64_t lease;
    int64_t expires;  // ns of CLOCK_BOOTTIME
    uint64_t padding[3];
};
static_assert(sizeof(SharedRegionEntry) == 64);

// The server appends this to its hello. Two descriptors come with it: control, payload.
struct ShmHello {
    uint64_t to_server_bytes = 0;  // powers of two
    uint64_t to_client_bytes = 0;
    uint64_t control_bytes = 0;
    uint64_t payload_bytes = 0;
    uint32_t slots = 0;
    uint32_t zero[7] = {};
};
static_assert(sizeof(ShmHello) == 64 && std::has_unique_object_representations_v<ShmHello>);

inline constexpr uint64_t ring_bytes_least = uint64_t{64} << 10;
inline constexpr uint64_t ring_bytes_most = uint64_t{4} << 20;
inline constexpr uint32_t slots_most = 4096;
// The slots that a listener makes: an rpc request grants at most two ranges, and 256 requests are
// in progress.
inline constexpr uint32_t slots_made_most = 1024;

[[nodiscard]] constexpr uint64_t grants_offset(const ShmHello& hello) {
    return control_page_bytes + hello.to_server_bytes + hello.to_client_bytes;
}
[[nodiscard]] constexpr uint64_t uses_offset(const ShmHello& hello) {
    return grants_offset(hello) + hello.slots * sizeof(SharedRegionEntry);
}
[[nodiscard]] constexpr uint64_t control_bytes(const ShmHello& hello) {
    return round_up(uses_offset(hello) + hello.slots * sizeof(uint32_t), control_page_bytes);
}
// Returns true if the numbers agree with each other. The sender may be hostile.
[[nodiscard]] constexpr bool makes_sense(const ShmHello& hello) {
    const auto ring = [](uint64_t bytes) {
        return std::has_single_bit(bytes) && bytes >= ring_bytes_least && bytes <= ring_bytes_most;
    };
    return ring(hello.to_server_bytes) && ring(hello.to_client_bytes) && hello.slots > 0 &&
           hello.slots <= slots_most && hello.control_bytes == control_bytes(hello) &&
           hello.payload_bytes > 0 && hello.payload_bytes % block_bytes == 0;
}

// A word that the peer may read or write at the same time.
template <class T>
[[nodiscard]] std::atomic_ref<T> shared(T& word) noexcept {
    static_assert(std::atomic_ref<T>::is_always_lock_free);
    return std::atomic_ref<T>(word);
}

}  // namespace ros2s::fabric::shm
