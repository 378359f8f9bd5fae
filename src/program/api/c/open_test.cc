// Threads that open and close pools at once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <string>
#include <thread>
#include <vector>

#include "test_support/test_pool.h"

namespace ros2s::api::c {
namespace {

// The last close of a pool and the next opening of it meet often, also with openings that fail.
TEST(CApiOpen, ThreadsOpenAndClosePoolsConcurrently) {
    constexpr int threads = 8;
    constexpr int rounds = 8;
    const std::array<TestPool, 2> pools;
    std::vector<std::thread> running;
    for (int t = 0; t < threads; ++t) {
        running.emplace_back([&, t] {
            const TestPool& pool = pools[static_cast<size_t>(t) % pools.size()];
            const std::string directory = "t" + std::to_string(t);
            for (int round = 0; round < rounds; ++round) {
                ros2s_fs* fs = pool.open();
                ASSERT_NE(fs, nullptr);
                EXPECT_EQ(ros2s_mkdir(fs, directory.c_str(), 0755), round == 0 ? 0 : -EEXIST);
                EXPECT_EQ(ros2s_close(fs), 0) << ros2s_last_error();
                const std::string missing = "ros2s+local:///other/main?dir=" + pool.directory();
                EXPECT_EQ(ros2s_open(missing.c_str(), nullptr, &fs, nullptr, 0), -ENOENT);
                EXPECT_THAT(ros2s_last_error(), testing::HasSubstr("is named 'pool'"));
            }
        });
    }
    for (auto& each : running) each.join();
}

}  // namespace
}  // namespace ros2s::api::c
