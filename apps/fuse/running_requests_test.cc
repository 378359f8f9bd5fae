#include "running_requests.h"

#include <gtest/gtest.h>

#include <vector>

namespace ros2s::fuse {
namespace {

constexpr Time now{std::chrono::hours(1)};

std::vector<uint64_t> looked_at(RunningRequests& all, Time last, bool answers = false) {
    std::vector<uint64_t> found;
    all.look_at_signalled(last, [&](const RunningRequests::Request& request) {
        found.push_back(request.unique);
        return answers;
    });
    return found;
}

TEST(RunningRequests, SignalIsForgottenWithItsRequest) {
    RunningRequests all;
    {
        const RunningRequests::Running first(all, {.unique = 1, .thread = 11});
        EXPECT_TRUE(all.note_signal(1, now));
        EXPECT_TRUE(all.note_signal(1, now));
        EXPECT_TRUE(all.has_signalled());
    }
    EXPECT_FALSE(all.has_signalled());
    EXPECT_FALSE(all.note_signal(1, now));
    const RunningRequests::Running without_a_thread(all, {.unique = 2, .thread = 0});
    EXPECT_FALSE(all.note_signal(2, now));
}

TEST(RunningRequests, SignalIsLookedAtUntilItIsAnswered) {
    using namespace std::chrono_literals;
    RunningRequests all;
    const RunningRequests::Running first(all, {.unique = 1, .thread = 11});
    const RunningRequests::Running second(all, {.unique = 2, .thread = 12});
    const RunningRequests::Running third(all, {.unique = 3, .thread = 13});
    EXPECT_TRUE(all.note_signal(1, now));
    EXPECT_TRUE(all.note_signal(2, now + 2s));
    EXPECT_EQ(looked_at(all, now - 1s), std::vector<uint64_t>());
    EXPECT_EQ(looked_at(all, now), std::vector<uint64_t>({1}));
    EXPECT_EQ(looked_at(all, now + 2s), std::vector<uint64_t>({2, 1}));
    EXPECT_EQ(looked_at(all, now, true), std::vector<uint64_t>({1}));
    EXPECT_EQ(looked_at(all, now + 2s, true), std::vector<uint64_t>({2}));
    EXPECT_FALSE(all.has_signalled());
}

}  // namespace
}  // namespace ros2s::fuse
