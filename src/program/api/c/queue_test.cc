#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>
#include <fstream>
#include <set>
#include <thread>

#include "ros2s/base/bytes.h"
#include "test_support/test_pool.h"

namespace ros2s::api::c {
namespace {

using testing::HasSubstr;

constexpr uint64_t block = 4096;

class CApiQueue : public SharedPoolTest {
  protected:
    void SetUp() override {
        ASSERT_EQ(ros2s_file_open(fs_, "a", O_RDWR | O_CREAT, 0644, &file_), 0);
    }
    void TearDown() override { EXPECT_EQ(ros2s_file_close(file_), 0) << ros2s_last_error(); }
    ros2s_queue* make_queue(uint32_t depth) {
        ros2s_queue* queue = nullptr;
        EXPECT_EQ(ros2s_queue_create(fs_, depth, &queue), 0) << ros2s_last_error();
        return queue;
    }
    static bool readable(int descriptor, int timeout_ms) {
        pollfd p{.fd = descriptor, .events = POLLIN, .revents = 0};
        return ::poll(&p, 1, timeout_ms) == 1;
    }

    ros2s_file* file_ = nullptr;
};

TEST_F(CApiQueue, BatchesAreWrittenAndReadBack) {
    constexpr uint32_t count = 64;
    ros2s_queue* queue = make_queue(count);
    const AlignedBuffer memory(count * block);
    ros2s_request requests[count] = {};
    for (uint32_t i = 0; i < count; ++i) {
        std::memset(memory.data() + i * block, static_cast<int>(i), block);
        requests[i].opcode = ROS2S_OP_WRITE;
        requests[i].file = file_;
        requests[i].address = memory.data() + i * block;
        requests[i].bytes = block;
        requests[i].offset = i * block;
        requests[i].user_data = 1000 + i;
    }
    ASSERT_EQ(ros2s_queue_submit(queue, requests, count), static_cast<int>(count));
    ros2s_completion completions[count];
    std::set<uint64_t> seen;
    while (seen.size() < count) {
        const int got = ros2s_queue_reap(queue, completions, 1, count, -1);
        ASSERT_GT(got, 0);
        for (int i = 0; i < got; ++i) {
            EXPECT_EQ(completions[i].result, static_cast<int64_t>(block));
            EXPECT_TRUE(seen.insert(completions[i].user_data).second);
        }
    }
    EXPECT_EQ(*seen.begin(), 1000U);
    // No request is in progress, so a reap that wants more does not wait.
    EXPECT_EQ(ros2s_queue_reap(queue, completions, 1, count, -1), 0);

    std::memset(memory.data(), 0xff, memory.size());
    for (auto& request : requests) request.opcode = ROS2S_OP_READ;
    ASSERT_EQ(ros2s_queue_submit(queue, requests, count), static_cast<int>(count));
    ASSERT_EQ(ros2s_queue_reap(queue, completions, count, count, -1), static_cast<int>(count));
    for (uint32_t i = 0; i < count; ++i) {
        EXPECT_EQ(static_cast<uint32_t>(memory.data()[i * block + 17]), i);
    }
    EXPECT_EQ(ros2s_queue_destroy(queue), 0);
}

TEST_F(CApiQueue, SubmitStopsAtDepth) {
    constexpr uint32_t depth = 5;  // not a power of two
    ros2s_queue* queue = make_queue(depth);
    ros2s_request requests[8] = {};
    for (uint64_t i = 0; i < 8; ++i) requests[i].user_data = i;
    ros2s_completion completions[8];
    uint64_t next = 0;
    for (int round = 0; round < 1000; ++round) {
        for (uint64_t i = 0; i < 8; ++i) requests[i].user_data = next + i;
        EXPECT_EQ(ros2s_queue_submit(queue, requests, 8), 5);
        EXPECT_EQ(ros2s_queue_submit(queue, requests, 8), 0);
        EXPECT_EQ(ros2s_queue_reap(queue, completions, 2, 2, -1), 2);
        EXPECT_EQ(completions[0].user_data, next);  // NOPs complete in order
        EXPECT_EQ(completions[1].user_data, next + 1);
        EXPECT_EQ(ros2s_queue_reap(queue, completions, 8, 8, -1), 3);
        next += 5;
    }
    EXPECT_EQ(ros2s_queue_destroy(queue), 0);
}

TEST_F(CApiQueue, ErrorsAreReturnedAsResults) {
    ros2s_queue* queue = make_queue(4);
    ros2s_file* read_only = nullptr;
    ASSERT_EQ(ros2s_file_open(fs_, "a", O_RDONLY, 0, &read_only), 0);
    char byte = 'x';
    const ros2s_request requests[] = {
        {.opcode = ROS2S_OP_FSYNC, .file = file_, .user_data = 0},
        {.opcode = ROS2S_OP_PUNCH_HOLE, .file = file_, .bytes = block, .user_data = 1},
        {.opcode = ROS2S_OP_WRITE, .file = read_only, .address = &byte, .bytes = 1, .user_data = 2},
        {.opcode = ROS2S_OP_READ, .file = read_only, .address = &byte, .bytes = 1, .user_data = 3}};
    ASSERT_EQ(ros2s_queue_submit(queue, requests, 4), 4);
    ros2s_completion completions[4];
    ASSERT_EQ(ros2s_queue_reap(queue, completions, 4, 4, -1), 4);
    for (const auto& completion : completions) {
        if (completion.user_data == 2) {
            EXPECT_LT(completion.result, 0);
        } else {
            EXPECT_EQ(completion.result, 0) << completion.user_data;
        }
    }
    EXPECT_EQ(ros2s_queue_destroy(queue), 0);
    EXPECT_EQ(ros2s_file_close(read_only), 0);
}

TEST_F(CApiQueue, InvalidRequestsAreRefused) {
    ros2s_queue* queue = make_queue(8);
    char bytes[16];
    const ros2s_request good{.opcode = ROS2S_OP_READ, .file = file_, .address = bytes, .bytes = 16};
    const auto refused = [&](auto change, int expected, const char* sentence) {
        ros2s_request bad = good;
        change(bad);
        const ros2s_request both[2] = {good, bad};
        EXPECT_EQ(ros2s_queue_submit(queue, both, 2), 1) << sentence;
        EXPECT_EQ(ros2s_queue_submit(queue, &bad, 1), expected) << sentence;
        EXPECT_THAT(ros2s_last_error(), HasSubstr(sentence));
        ros2s_completion completion;
        EXPECT_EQ(ros2s_queue_reap(queue, &completion, 1, 1, -1), 1);
    };
    refused([](auto& r) { r.opcode = 99; }, -EINVAL, "99 is not a ros2s_opcode");
    refused([](auto& r) { r.memory = ROS2S_MEMORY_GPU; }, -EOPNOTSUPP, "host memory only");
    refused([](auto& r) { r.memory = 77; }, -EINVAL, "77 is not a ros2s_memory_kind");
    refused([](auto& r) { r.file = nullptr; }, -EINVAL, "the file is NULL");
    refused([](auto& r) { r.address = nullptr; }, -EINVAL, "the address is NULL");
    refused([](auto& r) { r.reserved = 1; }, -EINVAL, "reserved");
    EXPECT_EQ(ros2s_queue_destroy(queue), 0);
    EXPECT_EQ(ros2s_queue_create(fs_, 0, &queue), -EINVAL);
    EXPECT_EQ(ros2s_queue_create(fs_, 65537, &queue), -EINVAL);
}

TEST_F(CApiQueue, RegisteredMemoryCarriesRequests) {
    const AlignedBuffer memory(16 * block);
    ros2s_memory described{.struct_bytes = sizeof described,
                           .kind = ROS2S_MEMORY_HOST,
                           .address = memory.data(),
                           .bytes = memory.size()};
    ros2s_buffer* buffer = nullptr;
    ASSERT_EQ(ros2s_buffer_register(fs_, &described, &buffer), 0) << ros2s_last_error();
    ros2s_queue* queue = make_queue(2);
    ros2s_request request{.opcode = ROS2S_OP_WRITE,
                          .file = file_,
                          .address = memory.data() + 15 * block,
                          .bytes = block,
                          .buffer = buffer};
    EXPECT_EQ(ros2s_queue_submit(queue, &request, 1), 1);
    ros2s_completion completion;
    EXPECT_EQ(ros2s_queue_reap(queue, &completion, 1, 1, -1), 1);
    EXPECT_EQ(completion.result, static_cast<int64_t>(block));
    request.bytes = block + 1;
    EXPECT_EQ(ros2s_queue_submit(queue, &request, 1), -EINVAL);
    EXPECT_THAT(ros2s_last_error(), HasSubstr("not inside its registered buffer"));
    EXPECT_EQ(ros2s_close(fs_), -EBUSY);
    EXPECT_EQ(ros2s_queue_destroy(queue), 0);
    EXPECT_EQ(ros2s_buffer_unregister(buffer), 0);

    described.kind = ROS2S_MEMORY_GPU;
    EXPECT_EQ(ros2s_buffer_register(fs_, &described, &buffer), -EOPNOTSUPP);
    described.kind = ROS2S_MEMORY_HOST;
    described.bytes = 0;
    EXPECT_EQ(ros2s_buffer_register(fs_, &described, &buffer), -EINVAL);
}

TEST_F(CApiQueue, DescriptorSignalsCompletions) {
    ros2s_queue* queue = make_queue(8);
    const int descriptor = ros2s_queue_fd(queue);
    ASSERT_GE(descriptor, 0);
    EXPECT_FALSE(readable(descriptor, 0));
    ros2s_completion completions[8];
    for (int round = 0; round < 200; ++round) {
        const ros2s_request requests[3] = {};
        ASSERT_EQ(ros2s_queue_submit(queue, requests, 3), 3);
        int got = 0;
        while (got < 3) {
            ASSERT_TRUE(readable(descriptor, 10'000));
            got += ros2s_queue_reap(queue, completions, 0, 8, 0);
        }
        EXPECT_FALSE(readable(descriptor, 0));
    }
    // It stays readable after a reap of fewer completions than there are.
    const ros2s_request requests[3] = {};
    ASSERT_EQ(ros2s_queue_submit(queue, requests, 3), 3);
    EXPECT_EQ(ros2s_queue_reap(queue, completions, 3, 8, -1), 3);
    EXPECT_EQ(ros2s_queue_destroy(queue), 0);
}

TEST_F(CApiQueue, ReapWithoutRequestsReturnsAtOnce) {
    ros2s_queue* queue = make_queue(8);
    ros2s_completion completion;
    const auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(ros2s_queue_reap(queue, &completion, 1, 1, 20'000'000), 0);
    // No request was in progress, so there was nothing to wait for.
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(15));
    EXPECT_EQ(ros2s_queue_destroy(queue), 0);
}

TEST_F(CApiQueue, SleepingSidesAreWoken) {
    ros2s_queue* queue = make_queue(1);
    // Both sides sleep between the rounds, so a lost wake-up would hang here.
    for (int round = 0; round < 100; ++round) {
        std::this_thread::sleep_for(std::chrono::microseconds(round * 5));
        const ros2s_request request{.user_data = 7};
        ASSERT_EQ(ros2s_queue_submit(queue, &request, 1), 1);
        ros2s_completion completion;
        ASSERT_EQ(ros2s_queue_reap(queue, &completion, 1, 1, 10'000'000'000), 1);
    }
    EXPECT_EQ(ros2s_queue_destroy(queue), 0);
}

// Neither side polls, so a completion that is not reported before the core sleeps hangs here. The
// requests complete at once (NOPs, a hole), or wait for the disk.
TEST(CApiQueueWakeup, CompletionBeforeCoreSleepsIsReported) {
    const TestPool pool;
    {
        std::ofstream settings(pool.directory() + "/config.yaml");
        settings << "pool: pool\nio:\n  poll: 0s\n";
    }
    ros2s_fs* const fs = pool.open();
    ASSERT_NE(fs, nullptr);
    ros2s_file* file = nullptr;
    ASSERT_EQ(ros2s_file_open(fs, "a", O_RDWR | O_CREAT, 0644, &file), 0);
    ASSERT_EQ(ros2s_ftruncate(file, 2 * block), 0);
    ros2s_queue* queue = nullptr;
    ASSERT_EQ(ros2s_queue_create(fs, 4, &queue), 0);
    const AlignedBuffer memory(4 * block);
    for (uint64_t round = 0; round < 200; ++round) {
        ros2s_request requests[4] = {};
        requests[1] = {
            .opcode = ROS2S_OP_WRITE, .file = file, .address = memory.data(), .bytes = block};
        requests[2] = requests[3] = {.opcode = ROS2S_OP_READ,
                                     .file = file,
                                     .address = memory.data() + block,
                                     .bytes = block};
        requests[3].address = memory.data() + 2 * block;
        requests[3].offset = block;
        const uint64_t first = round % 4;  // each kind also comes alone
        const auto count = static_cast<uint32_t>(round % 8 < 4 ? 1 : 4 - first);
        ASSERT_EQ(ros2s_queue_submit(queue, requests + first, count), static_cast<int>(count));
        ros2s_completion completions[4];
        ASSERT_EQ(ros2s_queue_reap(queue, completions, count, 4, 60'000'000'000),
                  static_cast<int>(count))
            << "round " << round;
    }
    EXPECT_EQ(ros2s_queue_destroy(queue), 0);
    EXPECT_EQ(ros2s_file_close(file), 0);
    EXPECT_EQ(ros2s_close(fs), 0);
}

TEST_F(CApiQueue, OneThreadSubmitsWhileAnotherReaps) {
    constexpr uint64_t total = 200'000;
    ros2s_queue* queue = make_queue(32);
    std::thread reaper([&] {
        ros2s_completion completions[32];
        uint64_t reaped = 0;
        while (reaped < total) {
            const int got = ros2s_queue_reap(queue, completions, 1, 32, 1'000'000);
            for (int i = 0; i < got; ++i) {
                ASSERT_EQ(completions[i].user_data, reaped + static_cast<uint64_t>(i));
            }
            reaped += static_cast<uint64_t>(got);
            if (got == 0) std::this_thread::yield();
        }
    });
    uint64_t submitted = 0;
    while (submitted < total) {
        ros2s_request requests[16] = {};
        const auto count = static_cast<uint32_t>(std::min<uint64_t>(16, total - submitted));
        for (uint32_t i = 0; i < count; ++i) requests[i].user_data = submitted + i;
        const int taken = ros2s_queue_submit(queue, requests, count);
        ASSERT_GE(taken, 0);
        submitted += static_cast<uint64_t>(taken);
        if (taken == 0) std::this_thread::yield();
    }
    reaper.join();
    EXPECT_EQ(ros2s_queue_destroy(queue), 0);
}

TEST_F(CApiQueue, EachThreadUsesItsOwnQueue) {
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&, t] {
            ros2s_queue* queue = make_queue(8);
            const AlignedBuffer memory(8 * block);
            std::memset(memory.data(), 'a' + t, memory.size());
            for (uint64_t round = 0; round < 50; ++round) {
                ros2s_request requests[8] = {};
                for (uint64_t i = 0; i < 8; ++i) {
                    requests[i] = {
                        .opcode = ROS2S_OP_WRITE,
                        .file = file_,
                        .address = memory.data() + i * block,
                        .bytes = block,
                        .offset = ((round * 8 + i) * 4 + static_cast<uint64_t>(t)) * block};
                }
                EXPECT_EQ(ros2s_queue_submit(queue, requests, 8), 8);
                ros2s_completion completions[8];
                EXPECT_EQ(ros2s_queue_reap(queue, completions, 8, 8, -1), 8);
                for (const auto& each : completions) {
                    EXPECT_EQ(each.result, static_cast<int64_t>(block));
                }
            }
            EXPECT_EQ(ros2s_queue_destroy(queue), 0);
        });
    }
    for (auto& each : threads) each.join();
    char byte = 0;
    EXPECT_EQ(ros2s_pread(file_, &byte, 1, 50 * 8 * 4 * block - 1), 1);
    EXPECT_EQ(byte, 'd');
}

TEST_F(CApiQueue, DestroyWaitsForOutstandingRequests) {
    ros2s_queue* queue = make_queue(64);
    const AlignedBuffer memory(1 << 20);
    ros2s_request requests[64] = {};
    for (auto& request : requests) {
        request = {.opcode = ROS2S_OP_WRITE,
                   .file = file_,
                   .address = memory.data(),
                   .bytes = memory.size()};
    }
    // Destroying the queue waits for requests in progress.
    EXPECT_EQ(ros2s_queue_submit(queue, requests, 64), 64);
    EXPECT_EQ(ros2s_queue_destroy(queue), 0);
    struct stat st{};
    EXPECT_EQ(ros2s_fstat(file_, &st), 0);
    EXPECT_EQ(st.st_size, 1 << 20);
}

}  // namespace
}  // namespace ros2s::api::c
