#include "ros2s/runtime/rest.h"

#include <gtest/gtest.h>

namespace ros2s {
namespace {

TEST(RestWatch, EndOfWorkIsReportedOnce) {
    RestWatch watch;
    EXPECT_TRUE(watch.came_to_rest(0)) << "after opening";
    EXPECT_FALSE(watch.came_to_rest(0));
    EXPECT_FALSE(watch.came_to_rest(1000)) << "works";
    EXPECT_FALSE(watch.came_to_rest(5000)) << "works on";
    EXPECT_TRUE(watch.came_to_rest(5000 + RestWatch::least_work - 1)) << "little is rest";
    EXPECT_FALSE(watch.came_to_rest(5000 + RestWatch::least_work));
}

// On a busy machine work may be as slow as rest, and take as much memory.
TEST(RestWatch, SlowWorkAddsUp) {
    RestWatch watch;
    EXPECT_TRUE(watch.came_to_rest(0));
    EXPECT_FALSE(watch.came_to_rest(RestWatch::least_work / 2));
    EXPECT_TRUE(watch.came_to_rest(RestWatch::least_work));
}

// A heartbeat is not idle, and returns the memory of a burst all the same, once.
TEST(RestWatch, LittleWorkAfterABurstIsRest) {
    RestWatch watch;
    constexpr uint64_t burst = 1'000'000, beat = 10 * RestWatch::least_work;
    EXPECT_TRUE(watch.came_to_rest(0));
    EXPECT_FALSE(watch.came_to_rest(burst));
    EXPECT_FALSE(watch.came_to_rest(burst + burst / RestWatch::part));
    uint64_t work = burst + burst / RestWatch::part;
    EXPECT_TRUE(watch.came_to_rest(work += beat));
    for (int i = 0; i < 100; ++i) EXPECT_FALSE(watch.came_to_rest(work += beat));
}

}  // namespace
}  // namespace ros2s
