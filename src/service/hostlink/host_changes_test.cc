#include "ros2s/hostlink/host_changes.h"

#include <gtest/gtest.h>

#include <chrono>

namespace ros2s::hostlink {
namespace {

using namespace std::chrono_literals;

const session::MountLocation first{session::SessionId{1}, session::MountId{1}};
const session::MountLocation second{session::SessionId{2}, session::MountId{1}};
constexpr Time begin{100s};

TEST(HostChanges, AnotherServerWithAnotherStoreMayHaveLostThem) {
    HostChanges changes;
    changes.acknowledged(first, begin);
    EXPECT_FALSE(changes.must_ask(first));
    EXPECT_FALSE(changes.started(first, 7));
    EXPECT_TRUE(changes.must_ask(second));
    EXPECT_TRUE(changes.started(second, 8));
    EXPECT_FALSE(changes.started(second, 8)) << "once";
    EXPECT_FALSE(changes.must_ask(second));
}

TEST(HostChanges, AnotherServerWithTheSameStoreHasLostNothing) {
    HostChanges changes;
    changes.acknowledged(first, begin);
    EXPECT_FALSE(changes.started(first, 7));
    EXPECT_FALSE(changes.started(second, 7));
}

TEST(HostChanges, SameServerRepeatsWhatItsStoreHasLost) {
    HostChanges changes;
    changes.acknowledged(first, begin);
    EXPECT_FALSE(changes.started(first, 7));
    EXPECT_FALSE(changes.started(first, 8));
    EXPECT_FALSE(changes.started(second, 8)) << "by the start that the first server said last";
}

TEST(HostChanges, ChangesAtUnknownStoreCountAsLost) {
    HostChanges changes;
    changes.acknowledged(first, begin);
    EXPECT_TRUE(changes.started(second, 7));
}

TEST(HostChanges, DurableChangesAreNotLost) {
    HostChanges changes;
    changes.acknowledged(first, begin);
    EXPECT_FALSE(changes.started(first, 7));
    changes.durable_before(first, begin);
    EXPECT_TRUE(changes.is_unsure()) << "it may be the newest";
    changes.durable_before(second, begin + 1s);
    EXPECT_TRUE(changes.is_unsure()) << "another server does not know of it";
    changes.durable_before(first, begin + 1s);
    EXPECT_FALSE(changes.is_unsure());
    changes.acknowledged(second, begin + 2s);
    EXPECT_FALSE(changes.started(second, 8));
}

}  // namespace
}  // namespace ros2s::hostlink
