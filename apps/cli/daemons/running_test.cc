#include "running.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace ros2s::cli {
namespace {

class RunningDaemon : public testing::Test {
  protected:
    RunningDaemon() {
        std::string pattern = std::filesystem::temp_directory_path() / "ros2store-running-XXXXXX";
        EXPECT_NE(::mkdtemp(pattern.data()), nullptr);
        directory_ = pattern;
        path_ = directory_ + "/x.pid";
    }
    ~RunningDaemon() override {
        std::error_code ignored;
        std::filesystem::remove_all(directory_, ignored);
    }
    std::string directory_, path_;
    Report report_;
};

TEST_F(RunningDaemon, RecordRoundTrips) {
    const Running running{
        .pid = 4711, .since = 1763650000, .addresses = {"control unix:/a: b", "shm /a/b"}};
    EXPECT_EQ(decode_running(encode_running(running)), running);
    EXPECT_EQ(decode_running("pid: many\nnonsense\npid 5\n: \n\n"), Running{});
}

TEST_F(RunningDaemon, DaemonRunsOnlyWhileLockIsHeld) {
    EXPECT_EQ(find_running(path_, report_), Running{});
    {
        const auto lock = RunLock::take(path_, report_);
        ASSERT_TRUE(lock);
        EXPECT_EQ(find_running(path_, report_)->pid, -1);
        ASSERT_TRUE(lock->write({.pid = 7, .since = 1}));
        EXPECT_EQ(find_running(path_, report_), (Running{.pid = 7, .since = 1}));
        EXPECT_EQ(RunLock::take(path_, report_).error().code, Code::busy);
    }
    EXPECT_EQ(find_running(path_, report_), Running{.ended = 7});
    ASSERT_TRUE(RunLock::take(path_, report_));
    EXPECT_EQ(find_running(path_, report_), Running{}) << "who takes it says anew who it is";
}

TEST_F(RunningDaemon, ProcessInheritingTheLockIsSignalled) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        const auto lock = RunLock::take(path_, report_);
        if (!lock || !lock->write({.pid = ::getpid(), .since = 1})) ::_exit(1);
        for (;;) ::pause();
    }
    for (int tries = 0; tries < 30'000; ++tries) {
        const auto running = find_running(path_, report_);
        ASSERT_TRUE(running);
        if (running->pid > 0) break;
        (void)::poll(nullptr, 0, 1);
    }
    const auto holder = LockHolder::find(path_, report_);
    ASSERT_TRUE(holder);
    EXPECT_FALSE(holder->is_ending());
    EXPECT_FALSE(holder->has_ended());
    EXPECT_TRUE(holder->signal(SIGKILL));
    EXPECT_TRUE(holder->is_ending()) << "from the signal on, not only once it is gone";
    siginfo_t end{};
    ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &end, WEXITED | WNOWAIT), 0);
    EXPECT_TRUE(holder->is_ending());
    EXPECT_TRUE(holder->has_ended()) << "also before anybody waited for it";
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    EXPECT_TRUE(holder->has_ended());
    EXPECT_EQ(holder->signal(SIGTERM).error().code, Code::not_found);
    EXPECT_EQ(LockHolder::find(path_, report_).error().code, Code::not_found);
}

TEST_F(RunningDaemon, OtherProcessWithSamePidDoesNotCount) {
    std::ofstream(path_) << encode_running({.pid = ::getpid(), .since = 1});
    EXPECT_EQ(LockHolder::find(path_, report_).error().code, Code::not_found);
}

}  // namespace
}  // namespace ros2s::cli
