// BlockHistory: histories written by hand, and the values that a read may return.
#include "block_history.h"

#include <gtest/gtest.h>

namespace ros2s::sim {
namespace {

Time at(int ms) { return Time{} + std::chrono::milliseconds(ms); }

TEST(BlockHistory, ReadOfLastOrConcurrentWriteIsAccepted) {
    BlockHistory history(1);
    const uint64_t one = history.begin(0, at(1));
    history.acknowledged(0, one, at(2));
    const uint64_t two = history.begin(0, at(3));
    EXPECT_EQ(history.found(0, one, at(4), at(5)), "");
    EXPECT_EQ(history.found(0, two, at(4), at(5)), "");
}

TEST(BlockHistory, LostWriteIsDetected) {
    BlockHistory history(1);
    const uint64_t one = history.begin(0, at(1));
    EXPECT_EQ(history.found(0, 0, at(2), at(3)), "") << "it is not acknowledged yet";
    history.acknowledged(0, one, at(4));
    EXPECT_NE(history.found(0, 0, at(5), at(6)), "");
}

TEST(BlockHistory, ReturningOldWriteIsDetected) {
    BlockHistory history(1);
    const uint64_t one = history.begin(0, at(1));
    history.acknowledged(0, one, at(2));
    const uint64_t two = history.begin(0, at(3));
    EXPECT_EQ(history.found(0, two, at(4), at(5)), "");
    EXPECT_NE(history.found(0, one, at(6), at(7)), "") << "although two is not acknowledged";
}

TEST(BlockHistory, UnwrittenValueIsDetected) {
    BlockHistory history(2);
    (void)history.begin(0, at(1));
    EXPECT_EQ(history.found(1, 0, at(2), at(3)), "");
    EXPECT_NE(history.found(1, 1, at(2), at(3)), "");
}

}  // namespace
}  // namespace ros2s::sim
