// A pool that another process has open.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "forked.h"

namespace ros2s::tests {
namespace {

using testing::HasSubstr;

std::string owner_of(const Daemons& pool) {
    std::ifstream file(pool.directory() + "/owner");
    return {std::istreambuf_iterator<char>(file), {}};
}

// Until `done`, for a minute at most.
bool wait_for(const std::function<bool()>& done,
              std::chrono::seconds at_most = std::chrono::minutes(1)) {
    const auto late = std::chrono::steady_clock::now() + at_most;
    while (!done()) {
        if (std::chrono::steady_clock::now() > late) return false;
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return true;
}

class PoolOfAnotherProcess : public testing::Test {
  protected:
    const Daemons pool{no_daemons};
};

TEST_F(PoolOfAnotherProcess, IsUsedThroughItsOwner) {
    const std::string uri = pool.uri();
    ros2s_fs* fs = open_container(uri);
    EXPECT_EQ(run(POOL_HELPER " fill '" + uri + "' a 8192"), 0);
    EXPECT_EQ(read_text(fs, "a"), std::string(4096, 'x'));
    EXPECT_EQ(write_file(fs, "b", "text"), 0);
    EXPECT_EQ(run(POOL_HELPER " report '" + uri + "' b | grep -q 'through process .*shared_pool'"),
              0);
    EXPECT_EQ(ros2s_close(fs), 0);
    EXPECT_EQ(owner_of(pool), "");
}

TEST_F(PoolOfAnotherProcess, IsFoundAgainInAnotherDirectory) {
    const auto before = std::filesystem::current_path();
    std::filesystem::current_path(pool.directory() + "/..");
    const Container fs("ros2s+local:///pool/main?dir=pool");
    std::filesystem::current_path(before);
    expect_child([&] { return write_file(fs, "a", "child"); });
    EXPECT_EQ(read_text(fs, "a"), "child");
}

// The path of a socket in it would be too long.
TEST_F(PoolOfAnotherProcess, IsInADirectoryWithALongName) {
    const std::string moved = pool.directory() + std::string(110, 'l');
    std::filesystem::rename(pool.directory(), moved);
    const std::string uri = "ros2s+local:///pool/main?dir=" + moved;
    ros2s_fs* fs = open_container(uri);
    expect_child([&] { return write_file(fs, "a", "child"); });
    EXPECT_EQ(read_text(fs, "a"), "child");
    EXPECT_EQ(ros2s_close(fs), 0);
    std::filesystem::rename(moved, pool.directory());
}

TEST_F(PoolOfAnotherProcess, IsRefusedToAnotherUser) {
    if (geteuid() != 0) GTEST_SKIP() << "needs root";
    const Container fs(pool.uri());
    expect_child([&] {
        constexpr uid_t nobody = 65534;
        CHILD_CHECK(setresuid(nobody, nobody, nobody) == 0);
        ros2s_fs* own = nullptr;
        CHILD_CHECK(ros2s_open(pool.uri().c_str(), nullptr, &own, nullptr, 0) == -EACCES);
        return 0;
    });
}

TEST_F(PoolOfAnotherProcess, OwnersEndIsNoticedWhenItCloses) {
    ros2s_fs* fs = open_container(pool.uri());
    std::array<int, 2> closed{};
    ASSERT_EQ(pipe(closed.data()), 0);
    const pid_t child = start_child([&] {
        CHILD_CHECK(write_file(fs, "a", "before") == 0);
        char byte = 0;
        close(closed[1]);
        CHILD_CHECK(read(closed[0], &byte, 1) == 0);
        CHILD_CHECK(read_text(fs, "a") == "before");
        CHILD_CHECK(write_file(fs, "b", "after") == 0);
        CHILD_CHECK(ros2s_close(fs) == 0);
        return 0;
    });
    EXPECT_TRUE(wait_for([&] { return owner_of(pool).contains("user: "); }));
    EXPECT_EQ(ros2s_close(fs), 0);
    close(closed[0]);
    close(closed[1]);
    EXPECT_EQ(end_of(child), 0);
    fs = open_container(pool.uri());
    EXPECT_EQ(read_text(fs, "b"), "after");
    EXPECT_EQ(ros2s_close(fs), 0);
}

// For these the next opener of the pool waits (docs/formats/served.md).
size_t clients_awaited(const Daemons& pool) {
    std::ifstream file(pool.directory() + "/served");
    const size_t lines = static_cast<size_t>(
        std::count(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>(), '\n'));
    return lines < 2 ? 0 : lines - 2;
}

TEST_F(PoolOfAnotherProcess, ClosedUserIsNotAwaited) {
    ros2s_fs* fs = open_container(pool.uri());
    ASSERT_EQ(write_file(fs, "a", "before"), 0);
    std::array<int, 2> closed{}, ends{};
    ASSERT_EQ(pipe(closed.data()), 0);
    ASSERT_EQ(pipe(ends.data()), 0);
    char text[8] = {};
    const pid_t child = start_child([&] {
        ros2s_file* file = nullptr;
        close(ends[1]);
        CHILD_CHECK(ros2s_file_open(fs, "a", O_RDWR, 0, &file) == 0);
        CHILD_CHECK(ros2s_pread(file, text, sizeof text, 0) == 6);
        CHILD_CHECK(ros2s_pwrite(file, "A", 1, 0) == 1);
        CHILD_CHECK(ros2s_file_close(file) == 0);
        CHILD_CHECK(ros2s_close(fs) == 0);
        CHILD_CHECK(write(closed[1], "x", 1) == 1);
        CHILD_CHECK(read(ends[0], text, 1) == 0);
        return 0;
    });
    EXPECT_EQ(read(closed[0], text, 1), 1);
    EXPECT_EQ(ros2s_close(fs), 0);
    EXPECT_EQ(clients_awaited(pool), 0U);
    close(ends[1]);
    EXPECT_EQ(end_of(child), 0);
    for (const int each : {closed[0], closed[1], ends[0]}) close(each);
}

// It had a file open, and kept names and attributes.
TEST_F(PoolOfAnotherProcess, EndedUserIsNotAwaited) {
    const Container fs(pool.uri());
    ASSERT_EQ(write_file(fs, "a", "before"), 0);
    expect_child([&] {
        struct stat st{};
        ros2s_file* file = nullptr;
        CHILD_CHECK(ros2s_stat(fs, "a", &st) == 0);
        CHILD_CHECK(ros2s_file_open(fs, "a", O_RDWR, 0, &file) == 0);
        CHILD_CHECK(ros2s_pwrite(file, "A", 1, 0) == 1);
        CHILD_CHECK(ros2s_flock(file, LOCK_EX) == 0);
        CHILD_CHECK(ros2s_stat(fs, "a", &st) == 0);
        return 0;
    });
    const auto begun = std::chrono::steady_clock::now();
    ros2s_file* file = nullptr;
    EXPECT_EQ(ros2s_chmod(fs, "a", 0600), 0);
    EXPECT_EQ(ros2s_file_open(fs, "a", O_RDWR, 0, &file), 0);
    EXPECT_EQ(ros2s_flock(file, LOCK_EX), 0);
    EXPECT_EQ(ros2s_file_close(file), 0);
    EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(1));
    EXPECT_TRUE(wait_for([&] { return clients_awaited(pool) == 0; }));
}

// The threads of what a pool needs run from the beginning of its opening.
TEST_F(PoolOfAnotherProcess, ChildDuringOpenUsesThePoolToo) {
    // As if a process that had just taken the pool had it.
    const int held =
        open((pool.directory() + "/owner").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    struct flock whole{};
    whole.l_type = F_WRLCK;
    ASSERT_EQ(fcntl(held, F_OFD_SETLK, &whole), 0);
    std::thread opening([&] {
        ros2s_fs* fs = open_container(pool.uri());
        EXPECT_EQ(write_file(fs, "a", "parent"), 0);
        EXPECT_EQ(ros2s_close(fs), 0);
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    const pid_t child = start_child([&] {
        close(held);
        return write_anew(pool.uri(), "b", "child");
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    close(held);
    opening.join();
    EXPECT_EQ(end_of(child), 0);
}

// Only in processes that have opened no pool before: so ctest runs these.

// What is shared with processes that are killed.
struct Shared {
    std::array<std::atomic<int>, 8> acknowledged;
};
Shared& shared_memory() {
    void* const memory =
        mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(memory, MAP_FAILED);
    return *new (memory) Shared{};
}

TEST_F(PoolOfAnotherProcess, KilledOwnerIsReplacedAndNothingAcknowledgedIsLost) {
    constexpr int writers = 4;
    constexpr int writes = 600;
    constexpr int names_every = 50;
    constexpr uint64_t record_bytes = 16;
    const auto record = [](int who, int i) {
        std::string text = std::to_string(who) + ":" + std::to_string(i);
        text.resize(record_bytes);
        return text;
    };
    const auto directory = [](int who, int i) {
        return "d" + std::to_string(who) + "." + std::to_string(i);
    };
    Shared& shared = shared_memory();
    std::array<int, 2> alive{};
    ASSERT_EQ(pipe(alive.data()), 0);
    const auto write_all = [&](ros2s_fs* fs, int who) {
        ros2s_file* file = nullptr;
        CHILD_CHECK(ros2s_file_open(fs, ("f" + std::to_string(who)).c_str(), O_RDWR | O_CREAT, 0644,
                                    &file) == 0);
        for (int i = 0; i < writes; ++i) {
            const std::string text = record(who, i);
            // On a busy machine the pool may be without an owner so long that a call fails.
            CHILD_CHECK(wait_for([&] {
                return ros2s_pwrite(file, text.data(), text.size(),
                                    static_cast<uint64_t>(i) * record_bytes) == record_bytes;
            }));
            if (i % names_every == 0) {
                CHILD_CHECK(wait_for([&] {
                    const int made = ros2s_mkdir(fs, directory(who, i).c_str(), 0755);
                    return made == 0 || made == -EEXIST;
                }));
            }
            shared.acknowledged.at(static_cast<size_t>(who)) = i + 1;
        }
        return 0;
    };
    const pid_t owner = start_child([&] {
        ros2s_fs* fs = open_container(pool.uri());
        for (int who = 1; who < writers; ++who) start_child([&] { return write_all(fs, who); });
        return write_all(fs, 0);
    });
    const auto done = [&](int least) {
        for (int who = 0; who < writers; ++who) {
            if (shared.acknowledged.at(static_cast<size_t>(who)) < least) return false;
        }
        return true;
    };
    EXPECT_TRUE(wait_for([&] { return done(writes / 10); }));
    kill(owner, SIGKILL);
    EXPECT_EQ(end_of(owner), a_signal + SIGKILL);
    // So is the process that replaces it.
    const int before = shared.acknowledged.at(1);
    // Within 5 s; on a busy machine it may take ten times as long.
    constexpr std::chrono::seconds replaced_within{50};
    EXPECT_TRUE(wait_for([&] { return shared.acknowledged.at(1) > before + 10; }, replaced_within));
    const std::string replaced = owner_of(pool);
    EXPECT_THAT(replaced, HasSubstr("program: ros2store-pool\n"));
    EXPECT_EQ(run(PROGRAM_CLI " status " + pool.directory() + " | grep -q 'used by *process'"), 0);
    kill(std::stoi(replaced.substr(replaced.find(' '))), SIGKILL);
    // The children of the owner hold the pipe until they have ended.
    close(alive[1]);
    char byte = 0;
    EXPECT_EQ(read(alive[0], &byte, 1), 0);
    close(alive[0]);
    ros2s_fs* fs = open_container(pool.uri());
    for (int who = 0; who < writers; ++who) {
        const int acknowledged = shared.acknowledged.at(static_cast<size_t>(who));
        if (who > 0) EXPECT_EQ(acknowledged, writes);
        ros2s_file* file = nullptr;
        ASSERT_EQ(ros2s_file_open(fs, ("f" + std::to_string(who)).c_str(), O_RDONLY, 0, &file), 0);
        for (int i = 0; i < acknowledged; ++i) {
            std::string text(record_bytes, ' ');
            ASSERT_EQ(ros2s_pread(file, text.data(), record_bytes,
                                  static_cast<uint64_t>(i) * record_bytes),
                      record_bytes);
            ASSERT_EQ(text, record(who, i));
            struct stat st{};
            if (i % names_every == 0) {
                EXPECT_EQ(ros2s_stat(fs, directory(who, i).c_str(), &st), 0);
            }
        }
        EXPECT_EQ(ros2s_file_close(file), 0);
    }
    EXPECT_EQ(ros2s_close(fs), 0);
    EXPECT_EQ(run(PROGRAM_CLI " pool check " + pool.directory() + " >/dev/null"), 0);
}

// Its users say so soon, and go on when it can be opened again.
// As a job that ran out of memory. A user that is stopped starts no other owner. Only in a process
// that has opened no pool before, whose child is the owner: so ctest runs it.
TEST_F(PoolOfAnotherProcess, UsersThatWereKilledWithTheOwnerAreNotAwaited) {
    std::array<int, 2> told{};
    ASSERT_EQ(pipe(told.data()), 0);
    const pid_t owner = start_child([&] {
        const Container fs(pool.uri());
        const pid_t user = start_child([&] {
            ros2s_file* file = nullptr;
            const pid_t self = getpid();
            CHILD_CHECK(ros2s_file_open(fs, "a", O_RDWR | O_CREAT, 0644, &file) == 0);
            CHILD_CHECK(write(told[1], &self, sizeof self) == sizeof self);
            return pause();
        });
        return end_of(user);
    });
    pid_t user = 0;
    ASSERT_EQ(read(told[0], &user, sizeof user), sizeof user);
    for (const int each : told) close(each);
    kill(user, SIGSTOP);
    kill(owner, SIGKILL);
    kill(user, SIGKILL);
    EXPECT_EQ(end_of(owner), a_signal + SIGKILL);
    EXPECT_EQ(clients_awaited(pool), 1U);
    EXPECT_EQ(ros2s_close(open_container(pool.uri())), 0);
    EXPECT_EQ(clients_awaited(pool), 0U);
}

TEST_F(PoolOfAnotherProcess, UsersOfAPoolThatCannotBeOpenedAgainGetAnError) {
    constexpr auto most = std::chrono::seconds(30);
    const std::string config = pool.directory() + "/config.yaml", away = config + ".away";
    std::array<int, 2> ready{}, ended{};
    ASSERT_EQ(pipe(ready.data()), 0);
    ASSERT_EQ(pipe(ended.data()), 0);
    char byte = 0;
    const pid_t owner = start_child([&] {
        ros2s_fs* fs = open_container(pool.uri());
        const pid_t child = start_child([&] {
            ros2s_file* file = nullptr;
            CHILD_CHECK(ros2s_file_open(fs, "a", O_RDWR | O_CREAT, 0644, &file) == 0);
            CHILD_CHECK(write(ready[1], "x", 1) == 1);
            CHILD_CHECK(read(ended[0], &byte, 1) == 1);
            const auto begun = std::chrono::steady_clock::now();
            CHILD_CHECK(ros2s_pwrite(file, "x", 1, 0) == -ENOTCONN);
            CHILD_CHECK(std::chrono::steady_clock::now() - begun < most);
            std::filesystem::rename(away, config);
            CHILD_CHECK(wait_for([&] { return ros2s_pwrite(file, "x", 1, 0) == 1; }));
            CHILD_CHECK(ros2s_file_close(file) == 0);
            CHILD_CHECK(ros2s_close(fs) == 0);
            CHILD_CHECK(write(ready[1], "y", 1) == 1);
            return 0;
        });
        return end_of(child);
    });
    EXPECT_EQ(read(ready[0], &byte, 1), 1);
    std::filesystem::rename(config, away);
    kill(owner, SIGKILL);
    EXPECT_EQ(end_of(owner), a_signal + SIGKILL);
    EXPECT_EQ(write(ended[1], "x", 1), 1);
    close(ready[1]);
    EXPECT_EQ(read(ready[0], &byte, 1), 1);
    EXPECT_EQ(byte, 'y');
    for (const int each : {ready[0], ended[0], ended[1]}) close(each);
}

// daemon(3): the owner ends as soon as it has forked.
TEST_F(PoolOfAnotherProcess, DaemonGoesOnWithThePoolOfItsParent) {
    std::array<int, 2> told{};
    ASSERT_EQ(pipe(told.data()), 0);
    expect_child([&] {
        ros2s_fs* fs = open_container(pool.uri());
        CHILD_CHECK(write_file(fs, "a", "before") == 0);
        if (daemon(1, 1) != 0) return 1;
        alarm(patience_s);
        const bool right = read_text(fs, "a") == "before" && write_file(fs, "b", "after") == 0 &&
                           ros2s_close(fs) == 0;
        const char said = right ? 'y' : 'n';
        [[maybe_unused]] const auto n = write(told[1], &said, 1);
        return 0;
    });
    close(told[1]);
    char said = 0;
    EXPECT_EQ(read(told[0], &said, 1), 1);
    EXPECT_EQ(said, 'y');
    close(told[0]);
    const Container fs(pool.uri());
    EXPECT_EQ(read_text(fs, "b"), "after");
}

// ros2store-pool opens it for all of them.
TEST_F(PoolOfAnotherProcess, ChildrenOpenAPoolThatTheirParentHasClosed) {
    constexpr int children = 4;
    EXPECT_EQ(ros2s_close(open_container(pool.uri())), 0);
    std::vector<pid_t> started;
    for (int i = 0; i < children; ++i) {
        started.push_back(
            start_child([&] { return write_anew(pool.uri(), "c" + std::to_string(i), "child"); }));
    }
    for (const pid_t each : started) EXPECT_EQ(end_of(each), 0);
    const Container fs(pool.uri());
    for (int i = 0; i < children; ++i) EXPECT_EQ(read_text(fs, "c" + std::to_string(i)), "child");
}

}  // namespace
}  // namespace ros2s::tests
