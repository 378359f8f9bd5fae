#include "frame.h"

#include <algorithm>
#include <iterator>

#include "fields.h"
#include "ros2s/base/check.h"
#include "ros2s/base/crc32c.h"
#include "ros2s/rpc/body.h"
#include "ros2s/rpc/trace_wire.h"

namespace ros2s::rpc {
namespace {

constexpr uint8_t request_flags = static_cast<uint8_t>(Flag::in_source) |
                                  static_cast<uint8_t>(Flag::body_in_source) |
                                  static_cast<uint8_t>(Flag::repeated);
constexpr uint8_t reply_flags = static_cast<uint8_t>(Flag::placed);

uint32_t frame_crc(const FrameHeader& header, ConstBytes covered) {
    const uint32_t crc =
        crc32c(object_bytes(header).first(sizeof header - sizeof(FrameHeader::crc)));
    return covered.empty() ? crc : crc32c_extend(crc, covered);
}

WindowDescriptor descriptor(ConstBytes descriptors, size_t index) {
    WindowDescriptor window;
    std::memcpy(&window, descriptors.data() + index * sizeof window, sizeof window);
    return window;
}

// True if the windows are valid and `expected` bytes long together.
bool windows_hold(ConstBytes descriptors, uint64_t expected) {
    uint64_t total = 0;
    for (size_t i = 0; i < descriptors.size() / sizeof(WindowDescriptor); ++i) {
        const WindowDescriptor window = descriptor(descriptors, i);
        if (window.length > expected - total) return false;
        if (window.offset > ~uint64_t{0} - window.length) return false;
        total += window.length;
    }
    return total == expected;
}

bool is_request_sane(const FrameHeader& header) {
    if (header.source_windows > windows_max || header.sink_windows > windows_max) return false;
    if (header.has(Flag::in_source) != (header.source_windows > 0)) return false;
    return !header.has(Flag::body_in_source) || header.has(Flag::in_source);
}

// Checks that depend on the kind alone, before any length is used.
bool is_sane(const FrameHeader& header) {
    if (header.body_bytes > body_bytes_max) return false;
    if (std::ranges::any_of(header.reserved, [](uint32_t word) { return word != 0; })) return false;
    const bool is_request = header.kind == Kind::request;
    const bool is_reply = header.kind == Kind::reply;
    const uint8_t flags = is_request ? request_flags : is_reply ? reply_flags : uint8_t{0};
    if ((header.flags & ~flags) != 0) return false;
    if (is_request) return is_request_sane(header);
    if (header.trace > (is_reply ? trace_bytes_max : 0)) return false;
    if (header.source_windows != 0 || header.sink_windows != 0 || header.sink_bytes != 0) {
        return false;
    }
    switch (header.kind) {
        case Kind::reply: return true;
        case Kind::hello:
        case Kind::welcome:
        case Kind::failure: return header.payload_bytes == 0;
        case Kind::cancel: return header.payload_bytes == 0 && header.body_bytes == 0;
        default: return false;
    }
}

// The codes by their numbers on the wire, which are their positions in this list: append only.
constexpr Code codes[] = {
    Code::not_found,    Code::exists,           Code::invalid,   Code::not_directory,
    Code::is_directory, Code::not_empty,        Code::loop,      Code::name_too_long,
    Code::no_space,     Code::no_memory,        Code::read_only, Code::denied,
    Code::busy,         Code::condition_failed, Code::corrupt,   Code::io,
    Code::no_attribute, Code::too_small,        Code::too_large, Code::stale,
    Code::unsupported,  Code::bad_version,      Code::cancelled, Code::deadline,
    Code::closed,       Code::name_taken,       Code::expired,   Code::over_cap,
    Code::leased,
};

}  // namespace

uint16_t to_wire(Code code) noexcept {
    const auto* const found = std::ranges::find(codes, code);
    if (found == std::end(codes)) return to_wire(Code::io);
    return static_cast<uint16_t>(found - std::begin(codes) + 1);
}
Code code_from_wire(uint16_t number) noexcept {
    return number == 0 || number > std::size(codes) ? Code::io : codes[number - 1];
}

WindowDescriptor Frame::source(size_t index) const {
    ROS2S_CHECK(index < header.source_windows);
    return descriptor(source_windows, index);
}
WindowDescriptor Frame::sink(size_t index) const {
    ROS2S_CHECK(index < header.sink_windows);
    return descriptor(sink_windows, index);
}

Result<Frame> decode_frame(ConstBytes message, uint64_t payload_elsewhere) {
    Frame frame;
    FrameHeader& header = frame.header;
    if (message.size() < sizeof header) return fail(Code::corrupt);
    std::memcpy(&header, message.data(), sizeof header);
    if (header.magic != FrameHeader::magic_value) return fail(Code::corrupt);
    if (header.version != FrameHeader::current_version) {
        return fail(Code::bad_version, header.version);
    }
    if (!is_sane(header)) return fail(Code::invalid);
    const size_t sources = header.source_windows * sizeof(WindowDescriptor);
    const size_t sinks = header.sink_windows * sizeof(WindowDescriptor);
    const uint64_t body = header.has(Flag::body_in_source) ? 0 : header.body_bytes;
    const ConstBytes rest = message.subspan(sizeof header);
    const uint64_t trace = header.kind == Kind::reply ? header.trace : 0;
    if (sources + sinks + body + trace > rest.size()) return fail(Code::invalid);
    const ConstBytes covered = rest.first(sources + sinks + body + trace);
    if (frame_crc(header, covered) != header.crc) return fail(Code::corrupt);
    frame.source_windows = covered.first(sources);
    frame.sink_windows = covered.subspan(sources, sinks);
    frame.body = covered.subspan(sources + sinks, body);
    frame.trace = covered.subspan(sources + sinks + body);
    frame.payload = rest.subspan(covered.size());

    const bool in_windows = header.has(Flag::in_source) || header.has(Flag::placed);
    if (frame.payload.size() + payload_elsewhere != (in_windows ? 0 : header.payload_bytes)) {
        return fail(Code::invalid);
    }
    if (header.has(Flag::in_source)) {
        const uint64_t in_front = header.has(Flag::body_in_source) ? header.body_bytes : 0;
        if (header.payload_bytes > ~uint64_t{0} - in_front) return fail(Code::invalid);
        if (!windows_hold(frame.source_windows, header.payload_bytes + in_front)) {
            return fail(Code::invalid);
        }
    }
    if (header.sink_windows > 0 && !windows_hold(frame.sink_windows, header.sink_bytes)) {
        return fail(Code::invalid);
    }
    return frame;
}

ConstBytes encode_frame(FrameHeader header, std::span<const WindowDescriptor> source,
                        std::span<const WindowDescriptor> sink, ConstBytes inline_body, Bytes into,
                        ConstBytes trace) {
    const size_t size = frame_bytes(source.size() + sink.size(), inline_body.size()) + trace.size();
    ROS2S_CHECK(into.size() >= size && source.size() <= windows_max && sink.size() <= windows_max);
    header.source_windows = static_cast<uint8_t>(source.size());
    header.sink_windows = static_cast<uint8_t>(sink.size());
    if (!header.has(Flag::body_in_source)) {
        header.body_bytes = static_cast<uint32_t>(inline_body.size());
    }
    if (!trace.empty()) header.trace = trace.size();
    const Bytes covered = into.subspan(sizeof header, size - sizeof header);
    Bytes rest = covered;
    for (const ConstBytes part : {std::as_bytes(source), std::as_bytes(sink), inline_body, trace}) {
        if (!part.empty() && part.data() != rest.data()) {
            std::memmove(rest.data(), part.data(), part.size());
        }
        rest = rest.subspan(part.size());
    }
    header.crc = frame_crc(header, covered);
    std::memcpy(into.data(), &header, sizeof header);
    return into.first(size);
}

// ---- bodies ---------------------------------------------------------------------------------

static ConstBytes encode_fields(const auto& body, auto fields, Bytes into) {
    FieldWriter<Encoder> out(into);
    fields(out, body);
    return into.first(out.size());
}

ConstBytes encode(const HelloBody& hello, Bytes into) {
    ROS2S_CHECK(hello.ticket.size() <= HelloBody::ticket_bytes_max);
    return encode_fields(hello, hello_fields, into);
}
Result<HelloBody> decode_hello(ConstBytes body) { return read_body<HelloBody>(body, hello_fields); }

ConstBytes encode(const WelcomeBody& welcome, Bytes into) {
    return encode_fields(welcome, welcome_fields, into);
}
Result<WelcomeBody> decode_welcome(ConstBytes body) {
    return read_body<WelcomeBody>(body, welcome_fields);
}

ConstBytes encode(const FailureBody& failure, Bytes into) {
    const FailureBody cut{failure.error, failure.text.substr(0, FailureBody::text_bytes_max)};
    return encode_fields(cut, failure_fields, into);
}
Result<FailureBody> decode_failure(ConstBytes body) {
    return read_body<FailureBody>(body, failure_fields);
}

}  // namespace ros2s::rpc
