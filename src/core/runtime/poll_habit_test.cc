#include "poll_habit.h"

#include <gtest/gtest.h>

namespace ros2s {
namespace {

// How many of the next `waits` are polled, if no poll finds anything.
int polls_in_vain(PollHabit& habit, int waits) {
    int polls = 0;
    for (int i = 0; i < waits; ++i) {
        if (!habit.begin()) continue;
        ++polls;
        habit.in_vain();
    }
    return polls;
}

TEST(PollHabit, SuccessfulPollsKeepPollingEachWait) {
    PollHabit habit;
    for (int i = 0; i < 100; ++i) {
        ASSERT_TRUE(habit.begin());
        habit.found();
    }
}

TEST(PollHabit, FailedPollDoublesTheSkippedWaits) {
    PollHabit habit;
    // Polled: waits 1, 3, 7, 15, 31, 63, 127, 255, 511, 1023, 2047, and then each 1,024th.
    EXPECT_EQ(polls_in_vain(habit, 1023), 10);
    EXPECT_EQ(polls_in_vain(habit, 100 * 1024), 100);
}

TEST(PollHabit, SuccessResumesPollingEachWait) {
    PollHabit habit;
    (void)polls_in_vain(habit, 1000);
    while (!habit.begin()) {
    }
    habit.found();
    EXPECT_TRUE(habit.begin());
    habit.in_vain();
    EXPECT_FALSE(habit.begin());
    EXPECT_TRUE(habit.begin());
}

TEST(PollBan, RareFindsDoubleTheBan) {
    PollBan ban;
    EXPECT_EQ(ban.contended(), PollBan::least);
    for (Duration last = PollBan::least; last < PollBan::most; last *= 2) {
        for (uint32_t i = 1; i < PollBan::finds_often; ++i) ban.found();
        EXPECT_EQ(ban.contended(), 2 * last);
    }
    EXPECT_EQ(ban.contended(), PollBan::most);
}

// A program that computes now and then between many requests does not reduce polling.
TEST(PollBan, FrequentFindsKeepTheBanShort) {
    PollBan ban;
    for (int contended = 0; contended < 20; ++contended) {
        EXPECT_EQ(ban.contended(), PollBan::least);
        for (uint32_t i = 0; i < PollBan::finds_often; ++i) ban.found();
    }
}

}  // namespace
}  // namespace ros2s
