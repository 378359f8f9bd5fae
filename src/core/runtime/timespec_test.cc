#include "time.h"

#include <gtest/gtest.h>

namespace ros2s {
namespace {

constexpr int64_t year = 31'556'952;

TEST(Timespec, NanosecondsRoundTrip) {
    for (const int64_t seconds : {-290 * year, int64_t{-1}, int64_t{0}, 55 * year, 290 * year}) {
        for (const long ns : {0L, 1L, 999'999'999L}) {
            const timespec time{.tv_sec = seconds, .tv_nsec = ns};
            EXPECT_TRUE(is_representable(time));
            const timespec back = to_timespec(to_wall_time(time));
            EXPECT_EQ(back.tv_sec, seconds);
            EXPECT_EQ(back.tv_nsec, ns);
        }
    }
}

TEST(Timespec, OutOfRangeTimeIsClamped) {
    const timespec after{.tv_sec = 430 * year, .tv_nsec = 5},
        end{.tv_sec = INT64_MAX, .tv_nsec = 0};
    for (const timespec& time : {after, end}) {
        EXPECT_FALSE(is_representable(time));
        const timespec cut = to_timespec(to_wall_time(time));
        EXPECT_GT(cut.tv_sec, 292 * year);
        EXPECT_LT(cut.tv_sec, 293 * year);
    }
    const timespec before{.tv_sec = -430 * year, .tv_nsec = 5},
        begin{.tv_sec = INT64_MIN, .tv_nsec = 0};
    for (const timespec& time : {before, begin}) {
        EXPECT_FALSE(is_representable(time));
        const timespec cut = to_timespec(to_wall_time(time));
        EXPECT_LT(cut.tv_sec, -292 * year);
        EXPECT_GT(cut.tv_sec, -293 * year);
    }
}

}  // namespace
}  // namespace ros2s
