// Frame: one rpc message, which is one fabric message: a fixed header, descriptors of windows, a
// body (arguments or results, encoded) and inline payload, in this order (docs/formats/rpc.md).
// Written by FrameWriter into borrowed memory; read by decode_frame(), which takes any bytes.
//
// Payload travels inline, or through windows: ranges of the caller's memory that the serving side
// gets from (source) or puts into (sink). A body too large for a message is in the source windows
// too, before the payload.
#pragma once
#include <array>
#include <cstdint>
#include <type_traits>

#include "ros2s/base/bytes.h"
#include "ros2s/base/result.h"
#include "ros2s/base/update_name.h"

namespace ros2s::rpc {

enum class Kind : uint8_t {
    // These three are part of the fabric's hello and its answer (fabric::PeerCheck).
    hello = 1,    // from the side that connects: versions, client instance, ticket
    welcome = 2,  // its answer: session index and limits
    failure = 3,  // answers a hello or a request: an error
    request = 4,
    reply = 5,
    cancel = 6,  // of a request: its caller does not wait any more; its reply is still due
};

enum class Flag : uint8_t {
    in_source = 1,       // request: the payload is in the source windows
    body_in_source = 2,  // request: so does the body, before the payload; comes with in_source
    placed = 4,          // reply: the payload was put into the sink windows
    repeated = 8,        // request: it was sent before, and may have been done
};

// A request's number holds its slot in the low bits.
inline constexpr uint64_t slot_bits = 16;
inline constexpr uint64_t slot_mask = (uint64_t{1} << slot_bits) - 1;

struct FrameHeader {
    static constexpr uint32_t magic_value = 0x50523252;  // "R2RP"
    static constexpr uint16_t current_version = 2;
    static constexpr uint64_t no_deadline = ~uint64_t{0};

    uint32_t magic = magic_value;
    uint16_t version = current_version;
    Kind kind{};
    uint8_t flags = 0;
    uint16_t method = 0;               // request
    uint8_t source_windows = 0;        // request: descriptors that follow
    uint8_t sink_windows = 0;          // request: descriptors behind those
    uint32_t session = 0;              // of the connection; 0 until the welcome has it
    uint64_t request = 0;              // the caller's number: low 16 bits its slot; never reused
    std::array<uint8_t, 16> client{};  // the name of an update
    uint64_t sequence = 0;
    uint32_t slot = 0;
    uint32_t body_bytes = 0;
    uint64_t payload_bytes = 0;
    uint64_t sink_bytes = 0;              // request: the largest payload of the reply
    uint64_t remaining_ns = no_deadline;  // request: time to its deadline, when it was sent
    uint64_t trace = 0;             // request: 1 requests one; reply: its bytes, after the body
    std::array<uint8_t, 16> tag{};  // reserved: authentication of header and body
    std::array<uint32_t, 5> reserved{};
    uint32_t crc = 0;  // CRC32C of what precedes it, then of the descriptors and an inline body

    [[nodiscard]] bool has(Flag flag) const noexcept {
        return (flags & static_cast<uint8_t>(flag)) != 0;
    }
    void set(Flag flag) noexcept { flags |= static_cast<uint8_t>(flag); }
    [[nodiscard]] UpdateName operation() const noexcept {
        return {.client = {client}, .slot = slot, .sequence = sequence};
    }
    void set(const UpdateName& id) noexcept {
        client = id.client.bytes;
        slot = id.slot;
        sequence = id.sequence;
    }
};
static_assert(sizeof(FrameHeader) == 128 && std::is_trivially_copyable_v<FrameHeader>);
static_assert(std::has_unique_object_representations_v<FrameHeader>);

// A part of a range that the caller granted. The key is the fabric's: 96 bytes, which the fabric
// checks at each use.
struct WindowDescriptor {
    std::array<std::byte, 96> key{};
    uint64_t offset = 0;  // in the key's range
    uint64_t length = 0;
    friend bool operator==(const WindowDescriptor&, const WindowDescriptor&) = default;
};
static_assert(sizeof(WindowDescriptor) == 112);

// For each direction of one request.
inline constexpr size_t windows_max = 8;
// For bodies, inline or not. The largest is a transaction of 1,024 conditions and operations.
inline constexpr uint64_t body_bytes_max = uint64_t{2} << 20;

// Bytes of a frame of this header before its inline payload, if it is a reply or failure.
[[nodiscard]] constexpr uint64_t reply_head_bytes(const FrameHeader& header) {
    return sizeof header + header.body_bytes + (header.kind == Kind::reply ? header.trace : 0);
}

// A decoded frame: views into the message, which outlives them.
struct Frame {
    FrameHeader header;
    ConstBytes source_windows;  // descriptors, one after the other
    ConstBytes sink_windows;
    ConstBytes body;     // empty if it is in the source windows
    ConstBytes trace;    // of a reply (trace_wire.h)
    ConstBytes payload;  // inline

    [[nodiscard]] WindowDescriptor source(size_t index) const;
    [[nodiscard]] WindowDescriptor sink(size_t index) const;
};

// Decodes any bytes. Checks each field against the frame's kind, its length and the other fields.
// `payload_elsewhere`: this many bytes of inline payload are not in `message`, which ends before
// them. Errors: corrupt (not our frame, a wrong CRC), bad_version (detail = the version), invalid
// (an invalid field).
[[nodiscard]] Result<Frame> decode_frame(ConstBytes message, uint64_t payload_elsewhere = 0);

// Bytes of a frame before its inline payload.
[[nodiscard]] constexpr uint64_t frame_bytes(size_t windows, uint64_t inline_body) {
    return sizeof(FrameHeader) + windows * sizeof(WindowDescriptor) + inline_body;
}

// Writes header, descriptors, inline body and a reply's trace into `into`, which has frame_bytes()
// of room. Completes the header: the lengths of these parts, and the CRC. The caller adds the
// payload and its length. The body may already be at its position in `into`.
ConstBytes encode_frame(FrameHeader header, std::span<const WindowDescriptor> source,
                        std::span<const WindowDescriptor> sink, ConstBytes inline_body, Bytes into,
                        ConstBytes trace = {});

// Codes on the wire have their own numbers, which never change their meaning. A code that this
// program does not have is read as `io`.
[[nodiscard]] uint16_t to_wire(Code code) noexcept;
[[nodiscard]] Code code_from_wire(uint16_t number) noexcept;

// ---- bodies of the rpc layer itself ---------------------------------------------------------

struct HelloBody {
    uint16_t version_least = FrameHeader::current_version;
    uint16_t version_most = FrameHeader::current_version;
    uint32_t service = 0;  // the service that the client requests: Service's
    Uuid client;           // its instance, for logs and the session table
    std::string_view ticket;
    static constexpr size_t ticket_bytes_max = 256;
};
// The limits of the payload that a server accepts in one request. Clients divide larger payload at
// multiples of a MiB.
inline constexpr uint64_t payload_bytes_least = uint64_t{1} << 20;
inline constexpr uint64_t payload_bytes_most = uint64_t{1} << 30;
struct WelcomeBody {
    uint16_t version = FrameHeader::current_version;
    uint16_t requests_max = 0;       // at once, in this session
    uint32_t inline_reply_max = 0;   // bytes of a whole reply frame without use of windows
    uint64_t payload_bytes_max = 0;  // of one request, in either direction
    uint64_t incarnation = 0;        // of the server's process: a new one after each start
};
struct FailureBody {
    Error error;
    std::string_view text;  // for people; may be empty
    static constexpr size_t text_bytes_max = 1024;
};

// Views point into `body`. Errors: corrupt.
[[nodiscard]] Result<HelloBody> decode_hello(ConstBytes body);
[[nodiscard]] Result<WelcomeBody> decode_welcome(ConstBytes body);
[[nodiscard]] Result<FailureBody> decode_failure(ConstBytes body);
// Return the written bytes; `into` has the given room.
inline constexpr size_t hello_bytes_max = 32 + HelloBody::ticket_bytes_max;
inline constexpr size_t welcome_bytes = 24;
inline constexpr size_t failure_bytes_max = 20 + FailureBody::text_bytes_max;
ConstBytes encode(const HelloBody& hello, Bytes into);
ConstBytes encode(const WelcomeBody& welcome, Bytes into);
ConstBytes encode(const FailureBody& failure, Bytes into);  // a longer text is cut

}  // namespace ros2s::rpc
