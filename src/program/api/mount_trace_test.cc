#include "ros2s/api/mount_trace.h"

#include <gtest/gtest.h>

namespace ros2s::api {
namespace {

using std::chrono::nanoseconds;

TEST(MountTrace, AnswerRoundTrips) {
    FileTrace trace;
    trace.io = {.path = "embedded engine, io_uring O_DIRECT, 1 device", .staged = 3};
    trace.read = {.bytes = 4096,
                  .whole = nanoseconds(12345),
                  .steps = {{"fs.pread", 0, nanoseconds(0), nanoseconds(9)},
                            {"device.read", 1, nanoseconds(2), nanoseconds(5)}}};
    const std::string answer = to_text(trace, nanoseconds(777));
    const auto back = parse_answer(answer, nanoseconds(1000));
    ASSERT_TRUE(back);
    EXPECT_EQ(back->fuse, nanoseconds(1000 - 777));
    EXPECT_EQ(back->io.path, trace.io.path);
    EXPECT_EQ(back->io.staged, 3u);
    EXPECT_EQ(back->read, trace.read);
    EXPECT_EQ(parse_answer(answer, nanoseconds(776))->fuse, nanoseconds(0));
}

TEST(MountTrace, AnyTextIsParsedOrRefused) {
    constexpr nanoseconds took(1000);
    for (const char* text :
         {"", "7", "7 0 path", "7 0 path\n1 2 18446744073709551615\n0 1 2 x", "7 0 path\n1 2 -1\n",
          "\n\n\n", "x y z", "-7 0 path\n1 2 0\n", "9223372036854775807 0 path\n1 2 0\n"}) {
        EXPECT_FALSE(parse_answer(text, took)) << text;
    }
    const auto deep = parse_answer("7 0 path\n1 2 2\n2000000000 1 2 x\n-5 1 2 y\n", took);
    ASSERT_TRUE(deep);
    EXPECT_EQ(deep->read.steps[0].depth, 40);
    EXPECT_EQ(deep->read.steps[1].depth, 0);
    const auto escapes = parse_answer("7 0 \033[2Jpath\n1 2 1\n0 1 2 \033x\177\n", took);
    ASSERT_TRUE(escapes);
    EXPECT_EQ(escapes->io.path, "\\x1b[2Jpath");
    EXPECT_EQ(escapes->read.steps[0].name, "\\x1bx\\x7f");
}

TEST(MountTrace, AttributeNameCarriesTheQuestion) {
    EXPECT_EQ(parse_question(to_attribute(8192)), 8192u);
    for (const char* other :
         {"user.origin", "user.ros2store.why.", "user.ros2store.why.1x", "user.ros2store.why.-1",
          "user.ros2store.why.write", mount_status_attribute}) {
        EXPECT_FALSE(parse_question(other)) << other;
    }
}

}  // namespace
}  // namespace ros2s::api
