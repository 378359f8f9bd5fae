#include "ros2s/pool/owner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <thread>

#include "ros2s/base/durable_file.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/test_support/made_reactor.h"

namespace ros2s::pool {
namespace {

using testing::HasSubstr;

class PoolOwnerTest : public testing::Test {
  protected:
    void SetUp() override {
        std::string path = testing::TempDir() + "owner.XXXXXX";
        ASSERT_NE(mkdtemp(path.data()), nullptr);
        directory_ = path;
    }
    void TearDown() override { std::filesystem::remove_all(directory_); }

    Result<std::unique_ptr<Ownership>> take(const OwnerRecord& self) {
        report_ = {};
        return Ownership::take(directory_, self, present_, report_);
    }
    // Runs `body` in a forked child and returns its exit status.
    static int in_child(const std::function<int()>& body) {
        const pid_t child = fork();
        if (child == 0) _exit(body());
        int status = 0;
        waitpid(child, &status, 0);
        return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
    }

    static Task<> leave(Reactor& on, std::unique_ptr<Ownership>& owner) {
        co_await sleep_for(on, std::chrono::milliseconds(20));
        owner.reset();
    }
    Task<bool> take_while_it_leaves(Reactor& on, std::unique_ptr<Ownership>& owner) {
        Nursery nursery(on, 1);
        co_await nursery.spawn(leave(on, owner));
        const auto taken = co_await Ownership::take_patiently(on, directory_, {.pid = getpid()},
                                                              present_, report_);
        co_await nursery.join();
        co_return taken.has_value();
    }

    std::string directory_;
    OwnerRecord present_;
    Report report_;
};

// A lock for reading is enough to keep a pool closed, and a readable file is enough for the lock.
TEST_F(PoolOwnerTest, LockFileIsClosedToOtherUsers) {
    const std::string path = directory_ + "/owner";
    for (const bool is_old : {false, true}) {
        if (is_old) std::filesystem::permissions(path, std::filesystem::perms(0644));
        ASSERT_TRUE(take({.pid = getpid()})) << report_.text();
        EXPECT_EQ(std::filesystem::status(path).permissions(), std::filesystem::perms(0600));
    }
}

// The file is overwritten, and a directory of somebody else could have a link in its place.
TEST_F(PoolOwnerTest, LinkIsNotFollowed) {
    const std::string other = directory_ + "/other";
    ASSERT_TRUE(replace_file(other, "precious"));
    std::filesystem::create_symlink(other, directory_ + "/owner");
    EXPECT_FALSE(take({.pid = getpid()}));
    EXPECT_THAT(report_.text(), HasSubstr("/owner"));
    EXPECT_EQ(read_file(other, 100).value_or(""), "precious");
}

TEST_F(PoolOwnerTest, SecondOpenerGetsTheRecordOfTheFirst) {
    const OwnerRecord self{
        .pid = getpid(),
        .program = "a%b\n",
        .mount_point = "/mnt/x y",
        .container = "main",
        .shares = true,
        .users = {{.pid = 7, .program = "tmux: client"}, {.pid = 12, .program = "%"}, {}}};
    auto first = take(self);
    ASSERT_TRUE(first) << report_.text();
    EXPECT_EQ(find_owner(directory_, report_), self);
    const auto second = take({.pid = 1});
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, Code::busy);
    EXPECT_EQ(present_, self);
    EXPECT_THAT(report_.text(), HasSubstr("already open in this process"));
    first->reset();
    EXPECT_EQ(find_owner(directory_, report_), OwnerRecord{});
    EXPECT_TRUE(take(self));
}

TEST_F(PoolOwnerTest, UnmountedOwnerIsAwaited) {
    const auto reactor = made_reactor();
    const auto taken_from = [&](const char* mount_point) {
        auto owner = take({.pid = getpid(), .program = "x", .mount_point = mount_point});
        EXPECT_TRUE(owner) << report_.text();
        return reactor->run(take_while_it_leaves(*reactor, *owner));
    };
    EXPECT_TRUE(taken_from("/nothing is\\mounted here"));
    EXPECT_FALSE(taken_from("/proc"));
}

TEST_F(PoolOwnerTest, MessageSaysHowToEndAnotherProcess) {
    EXPECT_THAT(describe_owner("/p", {.pid = 1, .program = "python3"}),
                "the pool in /p is in use by process 1 (python3): wait until it ends, or end it: "
                "kill 1");
    EXPECT_THAT(describe_owner("/p", {.pid = 1,
                                      .program = "python3",
                                      .shares = true,
                                      .users = {{.pid = 7, .program = "sh"}, {.pid = 8}}}),
                testing::AllOf(HasSubstr("other processes use it: 7 (sh), 8 ()"),
                               testing::Not(HasSubstr("kill"))));
    EXPECT_THAT(
        describe_owner("/p", {.pid = 1, .program = "ros2store-engine"}),
        testing::AllOf(HasSubstr("process 1 (ros2store-engine)"), HasSubstr("ros2store down /p")));
    EXPECT_THAT(describe_owner("/p", {.pid = 1, .program = "ros2store-fuse", .mount_point = "/m"}),
                HasSubstr("ros2store down "));
}

TEST_F(PoolOwnerTest, ForkedChildNeitherHoldsNorReleasesTheLock) {
    auto first = take({.pid = getpid(), .program = "parent"});
    ASSERT_TRUE(first);
    // The child outlives the parent's ownership and destroys its copy: neither has an effect.
    std::array<int, 2> go{}, up{};
    ASSERT_EQ(pipe(go.data()), 0);
    ASSERT_EQ(pipe(up.data()), 0);
    const pid_t child = fork();
    char byte = 0;
    if (child == 0) {
        first->reset();
        [[maybe_unused]] const auto said = write(up[1], &byte, 1);
        [[maybe_unused]] const auto n = read(go[0], &byte, 1);
        _exit(0);
    }
    // It releases the lock as it starts to run.
    ASSERT_EQ(read(up[0], &byte, 1), 1);
    EXPECT_EQ(in_child([&] { return take({.pid = getpid()}) ? 1 : 0; }), 0);
    first->reset();
    EXPECT_EQ(in_child([&] { return take({.pid = getpid()}) ? 0 : 1; }), 0);
    close(go[1]);
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    for (const int end : {go[0], up[0], up[1]}) close(end);
}

TEST_F(PoolOwnerTest, LeavingOwnerIsAwaited) {
    auto first = take({.pid = getpid()});
    ASSERT_TRUE(first);
    ASSERT_EQ(truncate((directory_ + "/owner").c_str(), 0), 0);
    const auto reactor = made_reactor();
    EXPECT_TRUE(reactor->run(take_while_it_leaves(*reactor, *first))) << report_.text();
}

TEST_F(PoolOwnerTest, CommandIsAwaitedAndOthersAreNot) {
    const auto reactor = made_reactor();
    const auto child = fork();
    if (child == 0) {
        pause();
        _exit(0);
    }
    const auto taken_while_leaves = [&](const OwnerRecord& owner) {
        auto first = take(owner);
        EXPECT_TRUE(first) << report_.text();
        return reactor->run(take_while_it_leaves(*reactor, *first));
    };
    const std::string command(command_program);
    EXPECT_TRUE(taken_while_leaves({.pid = child, .program = command})) << report_.text();
    const std::string for_others(pool_program);
    EXPECT_TRUE(taken_while_leaves({.pid = child, .program = for_others})) << report_.text();
    EXPECT_FALSE(taken_while_leaves({.pid = child, .program = for_others, .users = {{.pid = 1}}}));
    EXPECT_FALSE(taken_while_leaves({.pid = child, .program = "python3"}));
    EXPECT_FALSE(taken_while_leaves({.pid = child, .program = command, .mount_point = "/proc"}));
    EXPECT_FALSE(taken_while_leaves({.pid = getpid(), .program = command}));
    // An owner that stays is named in the error.
    auto stays = take({.pid = child, .program = command});
    ASSERT_TRUE(stays);
    const auto taken = reactor->run(
        Ownership::take_patiently(*reactor, directory_, {.pid = getpid()}, present_, report_));
    ASSERT_FALSE(taken);
    EXPECT_THAT(report_.text(), HasSubstr("wait until it ends"));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
}

TEST_F(PoolOwnerTest, OwnerWithoutARecordIsReported) {
    auto first = take({.pid = getpid()});
    ASSERT_TRUE(first);
    ASSERT_EQ(truncate((directory_ + "/owner").c_str(), 0), 0);
    const auto reactor = made_reactor();
    const auto taken = reactor->run(
        Ownership::take_patiently(*reactor, directory_, {.pid = getpid()}, present_, report_));
    ASSERT_FALSE(taken);
    EXPECT_EQ(taken.error().code, Code::busy);
    EXPECT_THAT(report_.text(), HasSubstr("fuser -v"));
}

TEST_F(PoolOwnerTest, DeadOwnerIsIgnored) {
    EXPECT_EQ(in_child([&] {
                  auto taken = take({.pid = getpid(), .program = "dead"});
                  if (!taken) return 1;
                  taken->release();  // NOLINT: dies with it
                  return 0;
              }),
              0);
    EXPECT_EQ(find_owner(directory_, report_), OwnerRecord{});
    EXPECT_TRUE(take({.pid = getpid()}));
}

// The kernel drops the lock only when it removes the process, after its memory.
TEST_F(PoolOwnerTest, KilledOwnerIsAwaited) {
    const auto reactor = made_reactor();
    for (int turn = 0; turn < 10; ++turn) {
        std::array<int, 2> up{};
        ASSERT_EQ(pipe(up.data()), 0);
        char byte = 0;
        const pid_t child = fork();
        if (child == 0) {
            const std::vector<char> memory(size_t{64} << 20, 'x');
            const auto taken = take({.pid = getpid(), .program = "python3"});
            [[maybe_unused]] const auto said = write(up[1], taken ? &memory[0] : &byte, 1);
            for (;;) pause();
        }
        ASSERT_EQ(read(up[0], &byte, 1), 1);
        EXPECT_EQ(byte, 'x');
        kill(child, SIGKILL);
        EXPECT_TRUE(reactor->run(
            Ownership::take_patiently(*reactor, directory_, {.pid = getpid()}, present_, report_)))
            << report_.text();
        waitpid(child, nullptr, 0);
        for (const int end : up) close(end);
    }
}

// The first thread of a process that ends loses its mount table while other threads hold the lock.
TEST_F(PoolOwnerTest, EndingMountIsAwaited) {
    const auto reactor = made_reactor();
    for (int turn = 0; turn < 100; ++turn) {
        std::array<int, 2> up{};
        ASSERT_EQ(pipe(up.data()), 0);
        char byte = 0;
        const pid_t child = fork();
        if (child == 0) {
            const auto taken = take({.pid = getpid(), .program = "x", .mount_point = "/not here"});
            // First, because the other thread may end the process before this one continues.
            [[maybe_unused]] const auto said = write(up[1], taken ? "x" : &byte, 1);
            std::thread([&] {
                ::poll(nullptr, 0, 5);
                _exit(0);
            }).detach();
            syscall(SYS_exit, 0);
        }
        ASSERT_EQ(read(up[0], &byte, 1), 1);
        EXPECT_EQ(byte, 'x');
        EXPECT_TRUE(reactor->run(
            Ownership::take_patiently(*reactor, directory_, {.pid = getpid()}, present_, report_)))
            << "turn " << turn << ": " << report_.text();
        waitpid(child, nullptr, 0);
        for (const int end : up) close(end);
    }
}

TEST_F(PoolOwnerTest, MissingDirectoryIsReported) {
    directory_ += "/missing";
    const auto taken = take({});
    ASSERT_FALSE(taken);
    EXPECT_EQ(taken.error().code, Code::not_found);
    EXPECT_THAT(report_.text(), HasSubstr("cannot open"));
    EXPECT_EQ(find_owner(directory_, report_).error().code, Code::not_found);
}

}  // namespace
}  // namespace ros2s::pool
