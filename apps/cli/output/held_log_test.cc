#include "held_log.h"

#include <gtest/gtest.h>

namespace ros2s::cli {
namespace {

TEST(HeldLog, FirstErrorIsTheCause) {
    const HeldLog held;
    EXPECT_EQ(held.with_cause("it failed"), "it failed");
    held.log().warning("not closed");
    EXPECT_EQ(held.with_cause("it failed"), "it failed (not closed)");
    held.log().error("damaged");
    held.log().error("writing failed");
    EXPECT_EQ(held.with_cause("it failed"), "it failed (damaged)");
    EXPECT_EQ(held.with_cause("a file is damaged"), "a file is damaged");
}

TEST(HeldLog, WarningsAreShownOnceWithoutErrors) {
    const HeldLog held;
    held.log().info("of no use here");
    for (int i = 0; i < 100; ++i) held.log().warning("slow");
    held.log().warning("slower");
    testing::internal::CaptureStderr();
    held.warn(Console(false));
    EXPECT_EQ(testing::internal::GetCapturedStderr(),
              "ros2store: warning: slow\nros2store: warning: slower\n");
    held.log().error("damaged");
    testing::internal::CaptureStderr();
    held.warn(Console(true));
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "{\"warning\": \"damaged\"}\n");
}

}  // namespace
}  // namespace ros2s::cli
