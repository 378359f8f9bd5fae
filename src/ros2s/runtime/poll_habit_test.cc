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

TEST(PollHabit, polls_each_wait_while_polls_find_work) {
    PollHabit habit;
    for (int i = 0; i < 100; ++i) {
        ASSERT_TRUE(habit.begin());
        habit.found();
    }
}

TEST(PollHabit, leaves_out_twice_as_many_waits_after_each_poll_in_vain) {
    PollHabit habit;
    // Polled: waits 1, 3, 7, 15, 31, 63, 127, 255, 511, 1023, 2047, and then each 1,024th.
    EXPECT_EQ(polls_in_vain(habit, 1023), 10);
    EXPECT_EQ(polls_in_vain(habit, 100 * 1024), 100);
}

TEST(PollHabit, polls_each_wait_again_after_one_that_found_work) {
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

}  // namespace
}  // namespace ros2s
