#include "backoff.h"

#include <gtest/gtest.h>

namespace ros2s {
namespace {

using std::chrono::milliseconds;

TEST(Backoff, PausesDoubleUpToTheLongest) {
    Backoff backoff{.first = milliseconds(5), .longest = milliseconds(30)};
    for (const int ms : {5, 10, 20, 30, 30}) EXPECT_EQ(backoff.next(), milliseconds(ms));
    for (int i = 0; i < 100; ++i) EXPECT_EQ(backoff.next(), milliseconds(30));
    backoff.attempts = 0;
    EXPECT_EQ(backoff.next(), milliseconds(5));
}

}  // namespace
}  // namespace ros2s
