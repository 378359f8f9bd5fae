#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <memory>

#include "kernel_ring.h"

namespace ros2s {
namespace {

using namespace std::chrono_literals;

class ThreadRingPolls : public testing::Test {
  protected:
    void SetUp() override {
        ASSERT_EQ(::pipe(ends_.data()), 0);
        Report report;
        waker_ = Waker::create(report).value();
        ring_ = make_thread_ring(ready_, *waker_, {}, report).value();
    }
    void TearDown() override {
        close(ends_[0]);
        close(ends_[1]);
    }
    void submit() {
        readable_ = {.opcode = Ring::Opcode::poll,
                     .fd = ends_[0],
                     .length = POLLIN,
                     .waiter = std::noop_coroutine()};
        ring_->submit(readable_);
    }
    void make_readable() { ASSERT_EQ(::write(ends_[1], "1", 1), 1); }
    void empty() {
        char byte = 0;
        ASSERT_EQ(::read(ends_[0], &byte, 1), 1);
    }

    std::array<int, 2> ends_{};
    ReadyQueue ready_;
    std::unique_ptr<Waker> waker_;
    std::unique_ptr<KernelRing> ring_;
    Ring::Operation readable_;
    const Time now_{1h};
};

TEST_F(ThreadRingPolls, LoopWithWorkChecksDescriptorsEach100us) {
    submit();
    EXPECT_FALSE(ring_->reap(now_, false));
    make_readable();
    EXPECT_FALSE(ring_->reap(now_ + 99us, false));
    EXPECT_TRUE(ring_->reap(now_ + 100us, false));
    EXPECT_EQ(readable_.result, POLLIN);
}

TEST_F(ThreadRingPolls, PollingLoopChecksDescriptorsEach5us) {
    submit();
    EXPECT_FALSE(ring_->reap(now_, true));
    make_readable();
    EXPECT_FALSE(ring_->reap(now_ + 4us, true));
    EXPECT_TRUE(ring_->reap(now_ + 5us, true));
}

TEST_F(ThreadRingPolls, TurnAfterAWaitDoesNotCheckDescriptorsAgain) {
    submit();
    ring_->wait(Duration::zero());
    make_readable();
    EXPECT_FALSE(ring_->reap(now_, true));
    EXPECT_TRUE(ring_->reap(now_ + 5us, true));
}

TEST_F(ThreadRingPolls, PollingLoopThatFoundSomethingChecksDescriptorsInEachTurn) {
    submit();
    make_readable();
    EXPECT_TRUE(ring_->reap(now_, true));
    empty();
    for (int i = 0; i < 100; ++i) {
        submit();
        EXPECT_FALSE(ring_->reap(now_, true));
        make_readable();
        EXPECT_TRUE(ring_->reap(now_, true));
        empty();
    }
}

}  // namespace
}  // namespace ros2s
