#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <array>

#include "kernel_ring.h"

namespace ros2s {
namespace {

// With work it looks at descriptors less often.
TEST(ThreadRing, EachPollOfTheLoopChecksDescriptors) {
    std::array<int, 2> ends{};
    ASSERT_EQ(::pipe(ends.data()), 0);
    Report report;
    const auto waker = Waker::create(report).value();
    ReadyQueue ready;
    const auto ring = make_thread_ring(ready, *waker, {}, report).value();
    for (int i = 0; i < 100; ++i) {
        Ring::Operation readable{.opcode = Ring::Opcode::poll,
                                 .fd = ends[0],
                                 .length = POLLIN,
                                 .waiter = std::noop_coroutine()};
        ring->submit(readable);
        EXPECT_FALSE(ring->reap(true));
        char byte = 1;
        ASSERT_EQ(::write(ends[1], &byte, 1), 1);
        EXPECT_TRUE(ring->reap(true));
        EXPECT_EQ(readable.result, POLLIN);
        ASSERT_EQ(::read(ends[0], &byte, 1), 1);
    }
    close(ends[0]);
    close(ends[1]);
}

}  // namespace
}  // namespace ros2s
