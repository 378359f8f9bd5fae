#include "second_creates.h"

#include <gtest/gtest.h>

namespace ros2s::fuse {
namespace {

constexpr fs::NodeId parent{7};

TEST(SecondCreates, CreateThatFollowsIsTheSecond) {
    SecondCreates creates;
    EXPECT_FALSE(creates.take(1, parent, "a"));
    creates.add(1, parent, "a");
    EXPECT_FALSE(creates.take(2, parent, "a"));
    EXPECT_FALSE(creates.take(1, {8}, "a"));
    EXPECT_FALSE(creates.take(1, parent, "b"));
    EXPECT_TRUE(creates.take(1, parent, "a"));
    EXPECT_FALSE(creates.take(1, parent, "a"));
}

TEST(SecondCreates, OldestIsDropped) {
    SecondCreates creates(2);
    for (const char* name : {"a", "b", "c"}) creates.add(1, parent, name);
    EXPECT_FALSE(creates.take(1, parent, "a"));
    EXPECT_TRUE(creates.take(1, parent, "b"));
    EXPECT_TRUE(creates.take(1, parent, "c"));
}

}  // namespace
}  // namespace ros2s::fuse
