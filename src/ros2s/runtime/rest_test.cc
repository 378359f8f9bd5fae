#include "ros2s/runtime/rest.h"

#include <gtest/gtest.h>

namespace ros2s {
namespace {

TEST(RestWatch, SaysOnceAfterWork) {
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

}  // namespace
}  // namespace ros2s
