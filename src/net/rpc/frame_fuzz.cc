// Any bytes as a frame: as they are, and with magic, version and CRC made valid. An accepted frame
// encodes to the same bytes, and its views are within the message.
#include <algorithm>
#include <vector>

#include "frame.h"
#include "ros2s/base/check.h"
#include "ros2s/base/crc32c.h"
#include "trace_wire.h"

using namespace ros2s;
using namespace ros2s::rpc;

namespace {

void read(ConstBytes message) {
    const auto frame = decode_frame(message);
    if (!frame) return;
    std::vector<WindowDescriptor> source, sink;
    for (size_t i = 0; i < frame->header.source_windows; ++i) source.push_back(frame->source(i));
    for (size_t i = 0; i < frame->header.sink_windows; ++i) sink.push_back(frame->sink(i));
    std::vector<std::byte> memory(message.size());
    encode_frame(frame->header, source, sink, frame->body, memory, frame->trace);
    std::ranges::copy(frame->payload, memory.end() - static_cast<long>(frame->payload.size()));
    ROS2S_CHECK(std::ranges::equal(memory, message));
    if (frame->header.kind == Kind::hello) static_cast<void>(decode_hello(frame->body));
    if (frame->header.kind == Kind::welcome) static_cast<void>(decode_welcome(frame->body));
    if (frame->header.kind == Kind::failure) static_cast<void>(decode_failure(frame->body));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const ConstBytes bytes = std::as_bytes(std::span(data, size));
    read(bytes);
    static_cast<void>(decode_hello(bytes));
    static_cast<void>(decode_welcome(bytes));
    static_cast<void>(decode_failure(bytes));
    Trace trace;
    StepNames names;
    static_cast<void>(add_steps(trace, bytes, Time{}, Time{} + std::chrono::seconds(1), names));
    FrameHeader header;
    if (size < sizeof header) return 0;
    std::memcpy(&header, data, sizeof header);
    header.magic = FrameHeader::magic_value;
    header.version = FrameHeader::current_version;
    header.reserved = {};
    const uint64_t body = header.has(Flag::body_in_source) ? 0 : header.body_bytes;
    const uint64_t covered =
        frame_bytes(size_t{header.source_windows} + header.sink_windows, body) - sizeof header;
    std::vector<std::byte> message(bytes.begin(), bytes.end());
    const ConstBytes behind = ConstBytes(message).subspan(sizeof header);
    header.crc = crc32c(object_bytes(header).first(sizeof header - sizeof header.crc));
    if (covered > 0) {
        header.crc =
            crc32c_extend(header.crc, behind.first(std::min<uint64_t>(covered, behind.size())));
    }
    std::memcpy(message.data(), &header, sizeof header);
    read(message);
    return 0;
}
