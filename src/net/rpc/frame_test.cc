#include "frame.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "trace_wire.h"

namespace ros2s::rpc {
namespace {

std::vector<std::byte> make(const FrameHeader& header, std::vector<WindowDescriptor> source,
                            std::vector<WindowDescriptor> sink, std::string_view body,
                            std::string_view payload) {
    std::vector<std::byte> memory(frame_bytes(source.size() + sink.size(), body.size()));
    encode_frame(header, source, sink, as_bytes(body), memory);
    const ConstBytes behind = as_bytes(payload);
    memory.insert(memory.end(), behind.begin(), behind.end());
    return memory;
}

FrameHeader request_header() {
    FrameHeader header;
    header.kind = Kind::request;
    header.method = 3;
    header.session = 7;
    header.request = 0x0000000500000002;
    UpdateName id{.slot = 9, .sequence = 0x1122334455667788};
    for (uint8_t i = 0; i < 16; ++i) id.client.bytes[i] = static_cast<uint8_t>(0xa0 + i);
    header.set(id);
    header.remaining_ns = 1'000'000'000;
    header.sink_bytes = 4096;
    return header;
}

WindowDescriptor window(uint64_t offset, uint64_t length) {
    WindowDescriptor window{.offset = offset, .length = length};
    window.key.fill(std::byte{0x4b});
    return window;
}

// These bytes never change: a change of one of them is another version. frame_fuzz starts with
// them, too: a frame, and bodies.
constexpr std::string_view golden =
#include "rpc_frame_fuzz_seeds.txt"
    ;

TEST(Frame, GoldenBytesMatch) {
    std::string lines = "\n";
    const auto add = [&lines](ConstBytes bytes) {
        for (const std::byte byte : bytes) {
            lines += fmt::format("{:02x}", static_cast<unsigned>(byte));
        }
        lines += '\n';
    };
    FrameHeader header = request_header();
    header.payload_bytes = 3;
    add(make(header, {}, {}, "body", "pay"));
    std::array<std::byte, 256> memory;
    HelloBody hello{.service = 1, .ticket = "ticket"};
    for (uint8_t i = 0; i < 16; ++i) hello.client.bytes[i] = static_cast<uint8_t>(0xa0 + i);
    add(encode(hello, memory));
    add(encode(WelcomeBody{.requests_max = 128,
                           .inline_reply_max = 8192,
                           .payload_bytes_max = 64 << 20,
                           .incarnation = 0x0102030405060708},
               memory));
    add(encode(FailureBody{.error = {Code::no_space, 28, 5}, .text = "full"}, memory));
    EXPECT_EQ(lines, golden);
}

TEST(Frame, RequestRoundTrips) {
    FrameHeader header = request_header();
    header.payload_bytes = 3;
    const auto message = make(header, {}, {window(0, 4096)}, "body", "pay");
    const auto frame = decode_frame(message);
    ASSERT_TRUE(frame.has_value());
    EXPECT_EQ(frame->header.operation(), header.operation());
    EXPECT_EQ(frame->header.remaining_ns, header.remaining_ns);
    EXPECT_EQ(as_text(frame->body), "body");
    EXPECT_EQ(as_text(frame->payload), "pay");
    EXPECT_EQ(frame->sink(0), window(0, 4096));
}

TEST(Frame, ReplyTraceFollowsBody) {
    FrameHeader header;
    header.kind = Kind::reply;
    header.payload_bytes = 3;
    const std::string_view body = "body", trace = "trace", payload = "pay";
    std::vector<std::byte> message(frame_bytes(0, body.size()) + trace.size());
    encode_frame(header, {}, {}, as_bytes(body), message, as_bytes(trace));
    for (const char letter : payload) message.push_back(static_cast<std::byte>(letter));
    const auto frame = decode_frame(message);
    ASSERT_TRUE(frame.has_value());
    EXPECT_EQ(frame->header.body_bytes, body.size());
    EXPECT_EQ(as_text(frame->body), body);
    EXPECT_EQ(as_text(frame->trace), trace);
    EXPECT_EQ(as_text(frame->payload), payload);
    message[sizeof header + body.size()] ^= std::byte{1};
    EXPECT_FALSE(decode_frame(message).has_value());
    // One that is too long, and one for a frame without any.
    const std::vector<std::byte> large(trace_bytes_max + 1);
    message.resize(frame_bytes(0, 0) + large.size());
    header.payload_bytes = 0;
    encode_frame(header, {}, {}, {}, message, large);
    EXPECT_FALSE(decode_frame(message).has_value());
    header.kind = Kind::failure;
    message.resize(frame_bytes(0, 0) + trace.size());
    encode_frame(header, {}, {}, {}, message, as_bytes(trace));
    EXPECT_FALSE(decode_frame(message).has_value());
}

TEST(Frame, ReplyPayloadMayBeSeparate) {
    FrameHeader header;
    header.kind = Kind::reply;
    header.payload_bytes = 3;
    const auto message = make(header, {}, {}, "body", "pay");
    const auto whole = decode_frame(message);
    ASSERT_TRUE(whole);
    const uint64_t head_bytes = reply_head_bytes(whole->header);
    EXPECT_EQ(head_bytes, message.size() - 3);
    const ConstBytes head = ConstBytes(message).first(head_bytes);
    const auto frame = decode_frame(head, 3);
    ASSERT_TRUE(frame);
    EXPECT_EQ(as_text(frame->body), "body");
    EXPECT_TRUE(frame->payload.empty());
    EXPECT_EQ(frame->header.payload_bytes, 3U);
    for (const uint64_t elsewhere : {0, 2, 4}) {
        EXPECT_EQ(decode_frame(head, elsewhere).error().code, Code::invalid) << elsewhere;
    }
    EXPECT_EQ(decode_frame(message, 3).error().code, Code::invalid);
}

TEST(Frame, BodyAndPayloadMayBeInWindows) {
    FrameHeader header = request_header();
    header.set(Flag::in_source);
    header.set(Flag::body_in_source);
    header.body_bytes = 1000;
    header.payload_bytes = 500;
    const auto message = make(header, {window(8, 1200), window(0, 300)}, {}, "", "");
    const auto frame = decode_frame(message);
    ASSERT_TRUE(frame.has_value());
    EXPECT_TRUE(frame->body.empty() && frame->payload.empty());
    EXPECT_EQ(frame->header.body_bytes, 1000U);
    EXPECT_EQ(frame->source(1), window(0, 300));
}

TEST(Frame, FlippedBitOutsidePayloadIsDetected) {
    FrameHeader header = request_header();
    header.payload_bytes = 3;
    const auto good = make(header, {}, {window(0, 4096)}, "body", "pay");
    for (size_t bit = 0; bit < (good.size() - 3) * 8; ++bit) {
        auto message = good;
        message[bit / 8] ^= std::byte{1} << (bit % 8);
        EXPECT_FALSE(decode_frame(message).has_value()) << "bit " << bit;
    }
}

TEST(Frame, WrongLengthIsRefused) {
    FrameHeader header = request_header();
    header.payload_bytes = 3;
    auto message = make(header, {}, {window(0, 4096)}, "body", "pay");
    for (size_t size = 0; size < message.size(); ++size) {
        EXPECT_FALSE(decode_frame(ConstBytes(message).first(size)).has_value()) << size;
    }
    message.push_back({});
    EXPECT_FALSE(decode_frame(message).has_value());
}

TEST(Frame, InvalidFieldUnderValidCrcIsRefused) {
    struct Case {
        const char* what;
        void (*change)(FrameHeader&);
    };
    const Case table[] = {
        {"no such kind", [](FrameHeader& h) { h.kind = static_cast<Kind>(77); }},
        {"a flag of another kind", [](FrameHeader& h) { h.set(Flag::placed); }},
        {"in source without windows", [](FrameHeader& h) { h.set(Flag::in_source); }},
        {"payload that is not there", [](FrameHeader& h) { h.payload_bytes = 1; }},
        {"reserved bits", [](FrameHeader& h) { h.reserved[4] = 1; }},
        {"a hello with payload",
         [](FrameHeader& h) {
             h.kind = Kind::hello;
             h.sink_bytes = 0;
             h.payload_bytes = 1;
         }},
        {"a cancel with a sink", [](FrameHeader& h) { h.kind = Kind::cancel; }},
    };
    for (const Case& c : table) {
        FrameHeader header = request_header();
        c.change(header);
        const auto frame = decode_frame(make(header, {}, {}, "", ""));
        ASSERT_FALSE(frame.has_value()) << c.what;
        EXPECT_EQ(frame.error().code, Code::invalid) << c.what;
    }
    FrameHeader header = request_header();
    header.version = FrameHeader::current_version + 1;
    const auto other = decode_frame(make(header, {}, {}, "", ""));
    ASSERT_FALSE(other.has_value());
    EXPECT_EQ(other.error(), (Error{Code::bad_version, 0, FrameHeader::current_version + 1}));
}

TEST(Frame, WindowLengthMismatchIsRefused) {
    const std::vector<std::vector<WindowDescriptor>> wrong = {
        {window(0, 4095)},
        {window(0, 4096), window(0, 1)},
        {window(~uint64_t{0}, 4096)},
        {window(0, ~uint64_t{0}), window(0, 4097)},
    };
    for (const auto& sink : wrong) {
        EXPECT_FALSE(decode_frame(make(request_header(), {}, sink, "", "")).has_value());
    }
    FrameHeader header = request_header();
    header.set(Flag::in_source);
    header.set(Flag::body_in_source);
    header.body_bytes = 10;
    header.payload_bytes = ~uint64_t{0};  // together with the body: 9
    EXPECT_FALSE(decode_frame(make(header, {window(0, 9)}, {}, "", "")).has_value());
}

TEST(Frame, BodiesRoundTripAndTruncatedBodyIsRefused) {
    std::array<std::byte, failure_bytes_max> memory;
    const auto cut = [](ConstBytes bytes, auto decode) {
        for (size_t size = 0; size < bytes.size(); ++size) {
            EXPECT_FALSE(decode(bytes.first(size)).has_value());
        }
    };
    const ConstBytes failure =
        encode(FailureBody{.error = {Code::denied, 13, 99}, .text = "no ticket"}, memory);
    const auto read = decode_failure(failure);
    ASSERT_TRUE(read.has_value());
    EXPECT_EQ(read->error, (Error{Code::denied, 13, 99}));
    EXPECT_EQ(read->text, "no ticket");
    cut(failure, decode_failure);
    WelcomeBody said{.requests_max = 5};
    for (const uint64_t senseless :
         {uint64_t{0}, uint64_t{100}, payload_bytes_most + 1, ~uint64_t{0}}) {
        said.payload_bytes_max = senseless;
        EXPECT_FALSE(decode_welcome(encode(said, memory))) << senseless;
    }
    said.payload_bytes_max = payload_bytes_least;
    const ConstBytes welcome = encode(said, memory);
    EXPECT_EQ(decode_welcome(welcome)->requests_max, 5);
    cut(welcome, decode_welcome);
    const ConstBytes hello = encode(HelloBody{.service = 2, .ticket = "abc"}, memory);
    EXPECT_EQ(decode_hello(hello)->ticket, "abc");
    cut(hello, decode_hello);
}

// The numbers on the wire never change.
TEST(Frame, ErrorCodesKeepTheirNumbers) {
    EXPECT_EQ(to_wire(Code::not_found), 1);
    EXPECT_EQ(to_wire(Code::no_space), 9);
    EXPECT_EQ(to_wire(Code::io), 16);
    EXPECT_EQ(to_wire(Code::stale), 20);
    EXPECT_EQ(to_wire(Code::closed), 25);
    EXPECT_EQ(to_wire(Code::name_taken), 26);
    EXPECT_EQ(to_wire(Code::expired), 27);
    for (uint16_t number = 1; number <= 27; ++number) {
        EXPECT_EQ(to_wire(code_from_wire(number)), number);
    }
    EXPECT_EQ(code_from_wire(0), Code::io);
    EXPECT_EQ(code_from_wire(999), Code::io);
}

}  // namespace
}  // namespace ros2s::rpc
