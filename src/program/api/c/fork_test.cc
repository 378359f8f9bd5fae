// The fork rule, and the owner of a pool.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <csignal>
#include <functional>

#include "test_support/test_pool.h"

namespace ros2s::api::c {
namespace {

using testing::HasSubstr;

// Runs `body` in a forked child; returns its result.
bool in_child(const std::function<bool()>& body) {
    const pid_t child = fork();
    if (child == 0) _exit(body() ? 0 : 1);
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(CApiFork, LivingChildDoesNotBlockReopen) {
    const TestPool pool;
    ros2s_fs* fs = pool.open();
    std::array<int, 2> never{};
    ASSERT_EQ(pipe(never.data()), 0);
    const pid_t lingering = fork();
    if (lingering == 0) {
        char byte = 0;
        close(never[1]);
        [[maybe_unused]] const auto n = read(never[0], &byte, 1);
        _exit(0);
    }
    EXPECT_EQ(ros2s_close(fs), 0);
    fs = pool.open();
    EXPECT_EQ(ros2s_close(fs), 0);
    close(never[0]);
    close(never[1]);
    kill(lingering, SIGKILL);
    waitpid(lingering, nullptr, 0);
}

// This program has no ros2store-pool beside it.
TEST(CApiFork, ChildThatCannotStartAnOwnerIsTold) {
    const TestPool pool;
    ros2s_fs* fs = pool.open();
    EXPECT_EQ(ros2s_close(fs), 0);
    EXPECT_TRUE(in_child([&] {
        ros2s_fs* own = nullptr;
        char error[1024];
        const int rc = ros2s_open(pool.uri().c_str(), nullptr, &own, error, sizeof error);
        return rc == -ENOENT && std::string_view(error).contains("has no owner") &&
               std::string_view(error).contains("install the package");
    }));
    fs = pool.open();
    EXPECT_EQ(ros2s_close(fs), 0);
}

TEST(PoolOwner, IsReplacedByAnotherProcessWhenItEnds) {
    const TestPool pool;
    Helper owner({"hold", pool.uri(), "the-owner"});
    ASSERT_EQ(owner.read_line(), "open");
    ros2s_fs* fs = pool.open();
    ros2s_file* file = nullptr;
    std::array<char, 4096> report{};
    ASSERT_EQ(ros2s_file_open(fs, "a", O_RDWR | O_CREAT, 0644, &file), 0) << ros2s_last_error();
    ASSERT_GT(ros2s_path_report(file, ROS2S_TEXT, report.data(), report.size()), 0);
    EXPECT_THAT(report.data(), HasSubstr("through process " + std::to_string(owner.pid()) +
                                         " (the-owner), which has the pool open"));
    EXPECT_EQ(ros2s_file_close(file), 0);
    EXPECT_EQ(ros2s_close(fs), 0);
    // It ends without closing: the kernel drops its lock, and the pool recovers.
    EXPECT_EQ(owner.wait(), 0);
    fs = pool.open();
    EXPECT_EQ(ros2s_close(fs), 0);
}

}  // namespace
}  // namespace ros2s::api::c
