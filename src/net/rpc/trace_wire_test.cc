// A server's steps come back with its reply, and no content of a trace does harm.
#include "ros2s/rpc/trace_wire.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "ros2s/base/random.h"

namespace ros2s::rpc {
namespace {

using namespace std::chrono_literals;

Time at(Duration since) { return Time{} + 1s + since; }

TEST(TraceWire, RemoteStepsAreCenteredInTheWait) {
    Trace there;
    there.add_below("engine.serve", 0, at(0us), Time{});  // still open
    there.add_below("device.read", 1, at(10us), at(30us));
    std::array<std::byte, trace_bytes_max> memory{};
    const ConstBytes bytes = encode_trace(there, at(0us), at(40us), memory);

    Trace here;
    StepNames names;
    const Time sent = at(5s);
    ASSERT_TRUE(add_steps(here, bytes, sent, sent + 100us, names));
    ASSERT_EQ(here.steps().size(), 2U);
    EXPECT_EQ(here.steps()[0].name, "engine.serve");
    EXPECT_EQ(here.steps()[0].depth, 0);
    EXPECT_EQ(here.steps()[0].begin, sent + 30us);
    EXPECT_EQ(here.steps()[0].end, sent + 70us);
    EXPECT_EQ(here.steps()[1].depth, 1);
    EXPECT_EQ(here.steps()[1].begin, sent + 40us);
    EXPECT_EQ(here.steps()[1].end, sent + 60us);
}

// These bytes never change: a change of one of them is another version.
TEST(TraceWire, GoldenBytesMatch) {
    Trace there;
    there.add_below("engine.serve", 0, at(0us), Time{});
    there.add_below("device.read", 1, at(10us), at(30us));
    std::array<std::byte, trace_bytes_max> memory{};
    std::string hex;
    for (const std::byte byte : encode_trace(there, at(0us), at(40us), memory)) {
        hex += fmt::format("{:02x}", static_cast<unsigned>(byte));
    }
    EXPECT_EQ(hex,
              "409c00000000000002000000000c000000656e67696e652e73657276650000000000000000409c000000"
              "000000010b0000006465766963652e726561641027000000000000204e000000000000");
}

TEST(TraceWire, StepsOverSizeAreOmitted) {
    Trace there;
    for (int i = 0; i < 1000; ++i) there.add_below("a step of some name", 1, at(0us), at(1us));
    std::array<std::byte, trace_bytes_max> memory{};
    const ConstBytes bytes = encode_trace(there, at(0us), at(1us), memory);
    EXPECT_LE(bytes.size(), trace_bytes_max);
    Trace here;
    StepNames names;
    ASSERT_TRUE(add_steps(here, bytes, at(0us), at(1us), names));
    EXPECT_GT(here.steps().size(), 30U);
}

TEST(TraceWire, AnyBytesAreDecodedOrRefused) {
    Trace there;
    there.add_below("engine.serve", 0, at(0us), at(40us));
    there.add_below("device.read", 1, at(10us), at(30us));
    std::array<std::byte, trace_bytes_max> memory{};
    const ConstBytes good = encode_trace(there, at(0us), at(40us), memory);
    StepNames names;
    for (size_t length = 0; length < good.size(); ++length) {
        Trace here;
        EXPECT_FALSE(add_steps(here, good.first(length), at(0us), at(1s), names)) << length;
    }
    Random random(5);
    for (int round = 0; round < 5000; ++round) {
        std::vector<std::byte> bytes(good.begin(), good.end());
        for (int i = 0; i < 3; ++i) {
            bytes[random.below(bytes.size())] = static_cast<std::byte>(random.below(256));
        }
        Trace here;
        (void)add_steps(here, bytes, at(0us), at(1s), names);
        for (const TraceStep& step : here.steps()) {
            EXPECT_GE(step.begin, at(0us));
            EXPECT_LE(step.end, at(3s));
        }
    }
}

TEST(TraceWire, NumberOfNamesIsBounded) {
    StepNames names;
    const std::string_view first = names.keep("first");
    std::string_view last;
    for (int i = 0; i < 10'000; ++i) last = names.keep("name " + std::to_string(i));
    EXPECT_EQ(last, "other");
    EXPECT_EQ(names.keep("first").data(), first.data());
}

}  // namespace
}  // namespace ros2s::rpc
