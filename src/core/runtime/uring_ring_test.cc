// When operations are handed to the kernel.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <liburing.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <vector>

#include "kernel_ring.h"
#include "ros2s/runtime/fixed_buffers.h"

namespace ros2s {
namespace {

struct Pipe {
    Pipe() { EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0); }
    ~Pipe() {
        for (const int end : ends) ::close(end);
    }
    Pipe& operator=(Pipe&&) = delete;
    [[nodiscard]] Ring::Operation poll() const {
        return {.opcode = Ring::Opcode::poll, .fd = ends[0], .length = POLLIN};
    }
    std::array<int, 2> ends{};
};

class UringRing : public testing::Test {
  protected:
    void SetUp() override {
        waker_ = Waker::create(report_).value();
        auto made = make_uring_ring(ready_, *waker_, {.submit_group = 4}, why_);
        if (!made) GTEST_SKIP() << why_;
        ring_ = std::move(*made);
        ring_->enter_thread();
        EXPECT_EQ(::write(readable_.ends[1], "x", 1), 1);
    }
    void TearDown() override {
        if (ring_ == nullptr) return;
        while (ring_->in_flight() > 0) ring_->reap({}, false);
    }
    // Reaps what is there of polls that complete as soon as the kernel has them.
    size_t reaped() {
        const size_t before = ring_->in_flight();
        ring_->reap({}, false);
        return before - ring_->in_flight();
    }

    Report report_;
    ReadyQueue ready_;
    std::unique_ptr<Waker> waker_;
    std::string why_;
    std::unique_ptr<KernelRing> ring_;
    Pipe readable_;
};

TEST_F(UringRing, OperationsAreSubmittedInGroupsAndAtTurnEnd) {
    std::array<Ring::Operation, 5> operations;
    operations.fill(readable_.poll());
    for (size_t i = 0; i < 3; ++i) {
        ring_->submit(operations[i]);
        EXPECT_EQ(reaped(), 0U) << i;
    }
    ring_->submit(operations[3]);
    EXPECT_EQ(reaped(), 4U);
    ring_->submit(operations[4]);
    EXPECT_EQ(reaped(), 0U);
    ring_->flush();
    EXPECT_EQ(reaped(), 1U);
}

TEST_F(UringRing, LargeTransferIsSubmittedAtOnce) {
    const int zeros = ::open("/dev/zero", O_RDONLY | O_CLOEXEC);
    const AlignedBuffer memory(size_t{1} << 20);
    const auto read = [&](size_t bytes) {
        return Ring::Operation{.opcode = Ring::Opcode::read,
                               .fd = zeros,
                               .address = memory.data(),
                               .length = static_cast<uint32_t>(bytes)};
    };
    Ring::Operation small = read(block_bytes), large = read(memory.size());
    ring_->submit(small);
    EXPECT_EQ(reaped(), 0U);
    ring_->submit(large);
    for (int i = 0; i < 10'000 && ring_->in_flight() > 0; ++i) {
        ::poll(nullptr, 0, 1);
        ring_->reap({}, false);
    }
    EXPECT_EQ(ring_->in_flight(), 0U);
    EXPECT_EQ(small.result, static_cast<int32_t>(block_bytes));
    EXPECT_GT(large.result, 0);  // this file may return less than was asked for
    ring_->flush();
    ::close(zeros);
}

// The kernel wakes it, finds nothing, and arms it anew; who cancels in between is told "already".
TEST_F(UringRing, PollAfterSpuriousWakeUpIsCancelled) {
    const Pipe pipe;
    Ring::Operation operation = pipe.poll();
    ring_->submit(operation);
    ring_->flush();
    EXPECT_FALSE(ring_->reap({}, false));
    char byte = 'x';
    EXPECT_EQ(::write(pipe.ends[1], &byte, 1), 1);
    EXPECT_EQ(::read(pipe.ends[0], &byte, 1), 1);
    ring_->cancel_poll(operation);
    for (int i = 0; i < 30'000 && ring_->in_flight() > 0; ++i) {
        ring_->wait(std::chrono::milliseconds(1));
        ring_->reap({}, false);
    }
    EXPECT_EQ(ring_->in_flight(), 0U);
    EXPECT_EQ(operation.result, -ECANCELED);
    // Not to leave it with the kernel where that failed.
    EXPECT_EQ(::write(pipe.ends[1], &byte, 1), 1);
    while (ring_->in_flight() > 0) ring_->reap({}, false);
}

struct Nothing {
    struct promise_type {
        Nothing get_return_object() { return {}; }
        std::suspend_never initial_suspend() noexcept { return {}; }
        std::suspend_never final_suspend() noexcept { return {}; }
        void return_void() {}
        void unhandled_exception() {}
    };
};
Nothing poll_until(Ring& ring, int fd, StopToken stop, bool& ended) {
    EXPECT_TRUE(co_await ring.poll(fd, POLLIN, stop));
    ended = true;
}
// It has completed, and whoever waits for it runs later in this turn. To cancel it then would leave
// its address behind, for the next operation at that address.
TEST_F(UringRing, CompletedPollIsNotCancelled) {
    StopSource stop;
    bool ended = false;
    poll_until(*ring_, readable_.ends[0], stop.token(), ended);
    ring_->flush();
    EXPECT_EQ(reaped(), 1U);
    EXPECT_FALSE(ended);
    stop.request_stop();
    EXPECT_EQ(ring_->in_flight(), 0U);
    EXPECT_FALSE(ring_->reap({}, false)) << "nothing was asked of the kernel";
    ready_.pop().resume();
    EXPECT_TRUE(ended);
}

// Idle connections: each has a poll that nothing wakes.
TEST_F(UringRing, IdlePollsLeaveRoomForTransfers) {
    const Pipe idle;
    std::vector<Ring::Operation> polls(2000, idle.poll());
    for (Ring::Operation& poll : polls) ring_->submit(poll);
    const int zeros = ::open("/dev/zero", O_RDONLY | O_CLOEXEC);
    std::array<std::byte, 64> memory{};
    Ring::Operation read{.opcode = Ring::Opcode::read,
                         .fd = zeros,
                         .address = memory.data(),
                         .length = memory.size()};
    ring_->submit(read);
    ring_->flush();
    const auto reap_until = [this](size_t left) {
        for (int i = 0; i < 30'000 && ring_->in_flight() > left; ++i) {
            ring_->wait(std::chrono::milliseconds(1));
            ring_->reap({}, false);
        }
    };
    reap_until(polls.size());
    EXPECT_EQ(ring_->in_flight(), polls.size());
    EXPECT_EQ(read.result, 64);
    // All at once.
    EXPECT_EQ(::write(idle.ends[1], "x", 1), 1);
    reap_until(0);
    EXPECT_EQ(ring_->in_flight(), 0U);
    ::close(zeros);
}

// A device's own ring beside the core's.
struct OtherRing {
    OtherRing() { EXPECT_EQ(io_uring_queue_init(8, &ring, 0), 0); }
    ~OtherRing() { io_uring_queue_exit(&ring); }
    OtherRing& operator=(OtherRing&&) = delete;
    // Bytes, or -errno: the kernel refuses memory that is not in this slot.
    int read_zeros(Bytes into, int slot) {
        const int zeros = ::open("/dev/zero", O_RDONLY | O_CLOEXEC);
        io_uring_prep_read_fixed(io_uring_get_sqe(&ring), zeros, into.data(),
                                 static_cast<unsigned>(into.size()), 0, slot);
        EXPECT_EQ(io_uring_submit_and_wait(&ring, 1), 1);
        io_uring_cqe* completion = nullptr;
        EXPECT_EQ(io_uring_peek_cqe(&ring, &completion), 0);
        const int result = completion->res;
        io_uring_cqe_seen(&ring, completion);
        ::close(zeros);
        return result;
    }
    io_uring ring{};
};

TEST_F(UringRing, FollowerKnowsRegisteredMemory) {
    OtherRing other;
    FixedBuffers table;
    table.open(other.ring);
    AlignedBuffer before(2 * block_bytes), after(block_bytes);
    ASSERT_TRUE(ring_->register_memory(before.bytes()));
    ring_->add_follower(table);
    ASSERT_TRUE(ring_->register_memory(after.bytes()));
    for (const Bytes memory : {before.bytes().subspan(block_bytes), after.bytes()}) {
        const int slot = table.slot_of(memory.data(), memory.size());
        ASSERT_GE(slot, 0);
        EXPECT_EQ(other.read_zeros(memory, slot), static_cast<int>(memory.size()));
        EXPECT_EQ(table.slot_of(memory.data(), memory.size() + 1), -1);
    }
    const int slot = table.slot_of(before.data(), block_bytes);
    ring_->unregister_memory(before.bytes());
    EXPECT_EQ(table.slot_of(before.data(), block_bytes), -1);
    EXPECT_EQ(other.read_zeros(before.bytes(), slot), -EFAULT);
    // A thread that has left keeps its memory.
    ring_->remove_follower(table);
    ring_->unregister_memory(after.bytes());
    EXPECT_GE(table.slot_of(after.data(), block_bytes), 0);
}

TEST(FixedBuffers, MissingRingRegistersNothing) {
    FixedBuffers table;
    AlignedBuffer memory(block_bytes);
    EXPECT_FALSE(table.add(memory.bytes()));
    EXPECT_EQ(table.slot_of(memory.data(), block_bytes), -1);
    EXPECT_EQ(table.slot_of(nullptr, 0), -1);
    table.remove(memory.bytes());
}

}  // namespace
}  // namespace ros2s
