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
    EXPECT_TRUE(watch.came_to_rest(5000 + RestWatch::least_work - 1)) << "timers are no work";
    EXPECT_FALSE(watch.came_to_rest(5000 + RestWatch::least_work));
}

}  // namespace
}  // namespace ros2s
