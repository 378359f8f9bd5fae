// The fork rule, and who owns a pool.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <csignal>
#include <functional>

#include "test_pool.h"

namespace ros2s::api::c {
namespace {

using testing::HasSubstr;

// Runs `body` in a forked child; true when it returned true there.
bool in_child(const std::function<bool()>& body) {
    const pid_t child = fork();
    if (child == 0) _exit(body() ? 0 : 1);
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool is_refused(int64_t rc) {
    return rc == -EBADF && std::string_view(ros2s_last_error())
                               .contains("opened before fork(); open it again in this process");
}

TEST(Fork, TheParentsHandlesFailInTheChildAndLiveOnInTheParent) {
    const TestPool pool;
    ros2s_fs* fs = pool.open();
    ros2s_file* file = nullptr;
    ros2s_queue* queue = nullptr;
    ros2s_dir* directory = nullptr;
    ASSERT_EQ(ros2s_file_open(fs, "a", O_RDWR | O_CREAT, 0644, &file), 0);
    ASSERT_EQ(ros2s_queue_create(fs, 4, &queue), 0);
    ASSERT_EQ(ros2s_opendir(fs, "/", &directory), 0);
    ASSERT_EQ(ros2s_pwrite(file, "parent", 6, 0), 6);
    EXPECT_TRUE(in_child([&] {
        char byte = 0;
        struct stat st{};
        ros2s_request request{};
        ros2s_completion completion;
        ros2s_dirent entry;
        ros2s_file* other = nullptr;
        return is_refused(ros2s_pread(file, &byte, 1, 0)) &&
               is_refused(ros2s_pwrite(file, "child", 5, 0)) &&
               is_refused(ros2s_stat(fs, "a", &st)) &&
               is_refused(ros2s_file_open(fs, "a", O_RDONLY, 0, &other)) &&
               is_refused(ros2s_queue_submit(queue, &request, 1)) &&
               is_refused(ros2s_queue_reap(queue, &completion, 1, 1, -1)) &&
               is_refused(ros2s_queue_fd(queue)) && is_refused(ros2s_readdir(directory, &entry)) &&
               is_refused(ros2s_closedir(directory)) && is_refused(ros2s_queue_destroy(queue)) &&
               is_refused(ros2s_file_close(file)) && is_refused(ros2s_close(fs));
    }));
    char text[8] = {};
    EXPECT_EQ(ros2s_pread(file, text, 6, 0), 6);
    EXPECT_STREQ(text, "parent");
    const ros2s_request request{};
    ros2s_completion completion;
    EXPECT_EQ(ros2s_queue_submit(queue, &request, 1), 1);
    EXPECT_EQ(ros2s_queue_reap(queue, &completion, 1, 1, -1), 1);
    EXPECT_EQ(ros2s_closedir(directory), 0);
    EXPECT_EQ(ros2s_queue_destroy(queue), 0);
    EXPECT_EQ(ros2s_file_close(file), 0);
    EXPECT_EQ(ros2s_close(fs), 0);
}

TEST(Fork, AChildOpensThePoolWhenTheParentHasClosedIt) {
    const TestPool pool;
    ros2s_fs* fs = pool.open();
    // While the parent owns the pool the child is told who does.
    EXPECT_TRUE(in_child([&] {
        ros2s_fs* own = nullptr;
        char error[512];
        const int rc = ros2s_open(pool.uri().c_str(), nullptr, &own, error, sizeof error);
        return rc == -EBUSY &&
               std::string_view(error).contains("process " + std::to_string(getppid()));
    }));
    // A child that was forked meanwhile and lives on holds nothing back.
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
    EXPECT_TRUE(in_child([&] {
        ros2s_fs* own = nullptr;
        struct stat st{};
        return ros2s_open(pool.uri().c_str(), nullptr, &own, nullptr, 0) == 0 &&
               ros2s_stat(own, "/", &st) == 0 && ros2s_close(own) == 0;
    }));
    fs = pool.open();
    EXPECT_EQ(ros2s_close(fs), 0);
    close(never[0]);
    close(never[1]);
    kill(lingering, SIGKILL);
    waitpid(lingering, nullptr, 0);
}

TEST(Owner, AnotherProcessIsNamedWithItsProgram) {
    const TestPool pool;
    std::array<int, 2> ready{};
    std::array<int, 2> done{};
    ASSERT_EQ(pipe(ready.data()), 0);
    ASSERT_EQ(pipe(done.data()), 0);
    const pid_t owner = fork();
    if (owner == 0) {
        ros2s_fs* fs = nullptr;
        const ros2s_open_options options{.struct_bytes = sizeof options, .program = "the-owner"};
        char byte = ros2s_open(pool.uri().c_str(), &options, &fs, nullptr, 0) == 0 ? 'y' : 'n';
        [[maybe_unused]] auto n = write(ready[1], &byte, 1);
        n = read(done[0], &byte, 1);
        _exit(0);  // without closing: the lock ends with the process
    }
    char byte = 0;
    ASSERT_EQ(read(ready[0], &byte, 1), 1);
    EXPECT_EQ(byte, 'y');
    ros2s_fs* fs = nullptr;
    EXPECT_EQ(ros2s_open(pool.uri().c_str(), nullptr, &fs, nullptr, 0), -EBUSY);
    EXPECT_THAT(ros2s_last_error(),
                HasSubstr("process " + std::to_string(owner) + " (the-owner): wait until it ends"));
    ASSERT_EQ(write(done[1], &byte, 1), 1);
    waitpid(owner, nullptr, 0);
    fs = pool.open();
    EXPECT_EQ(ros2s_close(fs), 0);
    for (const int each : {ready[0], ready[1], done[0], done[1]}) close(each);
}

}  // namespace
}  // namespace ros2s::api::c
