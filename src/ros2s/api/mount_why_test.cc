#include "ros2s/api/mount_why.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

namespace ros2s::api {
namespace {

using std::chrono::nanoseconds;

RequestTrace request(int steps) {
    RequestTrace out{.bytes = 4096, .whole = nanoseconds(12345), .steps = {}};
    for (int i = 0; i < steps; ++i) {
        out.steps.push_back(
            {"step." + std::to_string(i), i % 4, nanoseconds(i * 10), nanoseconds(7)});
    }
    return out;
}

TEST(MountWhy, AnAnswerComesBackAsItWas) {
    FileTrace trace;
    trace.io = {.path = "embedded engine, io_uring O_DIRECT, 1 device", .staged = 3};
    trace.read = request(5);
    for (const bool write : {false, true}) {
        if (write) trace.write = request(9);
        const MountWhy question{.offset = 8192};
        const MountWhy answer = encode_answer(question, trace, nanoseconds(777));
        EXPECT_EQ(answer.offset, 8192u);
        EXPECT_EQ(answer.handled_ns, 777u);
        const FileTrace back = decode_answer(answer);
        EXPECT_EQ(back.io.path, trace.io.path);
        EXPECT_EQ(back.io.staged, 3u);
        EXPECT_EQ(back.read, trace.read);
        EXPECT_EQ(back.write, trace.write);
    }
}

TEST(MountWhy, WhatIsTooMuchIsLeftOut) {
    FileTrace trace;
    trace.io.path = std::string(1000, 'x');
    trace.read = request(100);
    trace.read.steps[0].name = std::string(100, 'y');
    const FileTrace back = decode_answer(encode_answer({}, trace, {}));
    EXPECT_EQ(back.io.path, std::string(512, 'x'));
    EXPECT_EQ(back.read.steps.size(), MountWhyRequest::steps_max);
    EXPECT_EQ(back.read.steps[0].name, std::string(24, 'y'));
}

TEST(MountWhy, AnyBytesAreTaken) {
    std::minstd_rand random(7);
    for (int round = 0; round < 200; ++round) {
        std::array<unsigned char, sizeof(MountWhy)> bytes;
        for (auto& byte : bytes) byte = static_cast<unsigned char>(random());
        MountWhy answer;
        std::memcpy(&answer, bytes.data(), bytes.size());
        const FileTrace trace = decode_answer(answer);
        EXPECT_LE(trace.read.steps.size(), MountWhyRequest::steps_max);
        for (const auto& step : trace.read.steps) EXPECT_LE(step.depth, 40);
    }
}

}  // namespace
}  // namespace ros2s::api
