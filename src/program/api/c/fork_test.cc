// The fork rule, and the owner of a pool.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/wait.h>

#include <array>
#include <csignal>
#include <functional>
#include <thread>

#include "ros2s/pool/owner.h"
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

bool is_refused(int64_t rc) {
    return rc == -EBADF && std::string_view(ros2s_last_error())
                               .contains("opened before fork() and is the parent's");
}

TEST(CApiFork, ParentHandlesFailOnlyInTheChild) {
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

bool is_told_to_start_anew(const TestPool& pool) {
    return in_child([&] {
        ros2s_fs* own = nullptr;
        char error[512];
        const int rc = ros2s_open(pool.uri().c_str(), nullptr, &own, error, sizeof error);
        return rc == -EOPNOTSUPP && std::string_view(error).contains("start method 'spawn'");
    });
}

TEST(CApiFork, ChildOfPoolUserCannotOpenAPool) {
    const TestPool pool;
    ros2s_fs* fs = pool.open();
    EXPECT_EQ(ros2s_close(fs), 0);
    EXPECT_TRUE(is_told_to_start_anew(pool));
}

// The threads of what a pool needs run from the beginning of its opening. Only in a process that
// has opened nothing before: so ctest runs it.
TEST(CApiFork, ChildDuringOpenCannotOpenAPool) {
    const TestPool pool;
    // As if a command had the pool: an opening waits for its end, up to 5 s.
    Report report;
    pool::OwnerRecord present;
    auto owner = pool::Ownership::take(pool.directory(),
                                       {.pid = 1, .program = std::string(pool::command_program)},
                                       present, report);
    ASSERT_TRUE(owner) << report.text();
    const int seen = inotify_init1(IN_CLOEXEC);
    ASSERT_GE(inotify_add_watch(seen, (pool.directory() + "/owner").c_str(), IN_OPEN), 0);
    ros2s_fs* fs = nullptr;
    int rc = 0;
    std::thread opening([&] { rc = ros2s_open(pool.uri().c_str(), nullptr, &fs, nullptr, 0); });
    pollfd waits{.fd = seen, .events = POLLIN, .revents = 0};
    EXPECT_EQ(poll(&waits, 1, 60'000), 1) << "it did not look who has the pool";
    EXPECT_TRUE(is_told_to_start_anew(pool));
    owner->reset();
    opening.join();
    close(seen);
    ASSERT_EQ(rc, 0);
    EXPECT_EQ(ros2s_close(fs), 0);
}

TEST(PoolOwner, BusyPoolNamesTheOwningProgram) {
    const TestPool pool;
    Helper owner({"hold", pool.uri(), "the-owner"});
    ASSERT_EQ(owner.read_line(), "open");
    ros2s_fs* fs = nullptr;
    EXPECT_EQ(ros2s_open(pool.uri().c_str(), nullptr, &fs, nullptr, 0), -EBUSY);
    EXPECT_THAT(ros2s_last_error(), HasSubstr("process " + std::to_string(owner.pid()) +
                                              " (the-owner): wait until it ends"));
    // It ends without closing: the kernel drops its lock, and the pool recovers.
    EXPECT_EQ(owner.wait(), 0);
    fs = pool.open();
    EXPECT_EQ(ros2s_close(fs), 0);
}

}  // namespace
}  // namespace ros2s::api::c
