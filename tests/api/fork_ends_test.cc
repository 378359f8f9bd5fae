// How forked children reach servers and pools, and how they end.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "forked.h"

namespace ros2s::tests {
namespace {

INSTANTIATE_TEST_SUITE_P(, Fork, testing::Values("ros2s", "ros2s+dpu", "ros2s+local"), set_up_of);
class ForkOnNetwork : public Fork {};
INSTANTIATE_TEST_SUITE_P(, ForkOnNetwork, testing::Values("ros2s", "ros2s+dpu"), set_up_of);

// The helper is no child of this process, and closing all descriptors does not break it.
TEST_P(Fork, ProgramsThatCloseAllDescriptorsAndWaitForAllChildren) {
    const Container fs(uri());
    expect_child([&] {
        close_range(3, ~0U, 0);
        const int taken = open("/dev/null", O_RDWR);
        CHILD_CHECK(taken == 3);
        for (int i = 0; i < 60; ++i) CHILD_CHECK(dup(taken) > 0);
        CHILD_CHECK(write_file(fs, "a", "child") == 0);
        CHILD_CHECK(waitpid(-1, nullptr, 0) == -1 && errno == ECHILD);
        return 0;
    });
    EXPECT_EQ(waitpid(-1, nullptr, 0), -1);
    EXPECT_EQ(errno, ECHILD);
    EXPECT_EQ(read_text(fs, "a"), "child");
}

// The helpers that were started with this in their environment.
std::set<std::string> helpers_with(const std::string& tag) {
    std::set<std::string> found;
    for (const auto& each : std::filesystem::directory_iterator("/proc")) {
        std::ifstream name(each.path() / "comm");
        std::ifstream environment(each.path() / "environ");
        const std::string all{std::istreambuf_iterator<char>(environment), {}};
        std::string program;
        if (std::getline(name, program) && program.starts_with("ros2store-contr") &&
            all.contains(tag)) {
            found.insert(each.path().filename());
        }
    }
    return found;
}

// Only in a process that has used no server before: so ctest runs it.
TEST_P(ForkOnNetwork, HelperIsSharedAndEndsWithItsLastProcess) {
    const std::string tag = "ROS2STORE_TEST_TAG=" + daemons_.directory();
    const auto use = [&] {
        ros2s_fs* own = nullptr;
        CHILD_CHECK(ros2s_open(uri().c_str(), nullptr, &own, nullptr, 0) == 0);
        CHILD_CHECK(ros2s_close(own) == 0);
        return 0;
    };
    expect_child([&] {
        setenv("ROS2STORE_TEST_TAG", daemons_.directory().c_str(), 1);
        CHILD_CHECK(use() == 0);
        CHILD_CHECK(in_child(use) == 0);
        const auto helpers = helpers_with(tag);
        CHILD_CHECK(helpers.size() == 1);
        CHILD_CHECK(in_child([&] { return in_child(use); }) == 0);
        CHILD_CHECK(helpers_with(tag) == helpers);
        return 0;
    });
    for (int i = 0; i < 1000 && !helpers_with(tag).empty(); ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    EXPECT_TRUE(helpers_with(tag).empty());
}

// A killed helper is replaced.
TEST_P(ForkOnNetwork, ChildWorksAfterItsHelperWasKilled) {
    const std::string tag = "ROS2STORE_TEST_TAG=" + daemons_.directory();
    setenv("ROS2STORE_TEST_TAG", daemons_.directory().c_str(), 1);
    const Container fs(uri());
    expect_child([&] {
        for (const std::string& each : helpers_with(tag)) {
            kill(std::stoi(each), SIGKILL);
        }
        for (int i = 0; i < 1000 && !helpers_with(tag).empty(); ++i) {
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
        return write_file(fs, "a", "child");
    });
    EXPECT_EQ(read_text(fs, "a"), "child");
}

constexpr int turns_usual = 20;
constexpr int status_of_child = 7;
const std::array<std::pair<const char*, void (*)()>, 3> ends{
    {{"exit", [] { exit(status_of_child); }},
     {"_exit", [] { _exit(status_of_child); }},
     {"abort", [] {
          std::signal(SIGABRT, SIG_DFL);
          abort();
      }}}};

// Children that end at once, and that have used `fs` before, where it is not null.
void check_ends(ros2s_fs* fs) {
    for (const auto& [name, end] : ends) {
        const int wanted = name == std::string("abort") ? a_signal + SIGABRT : status_of_child;
        for (int i = 0; i < turns(turns_usual); ++i) {
            const bool uses = fs != nullptr && i % 4 == 0;
            const int ended = in_child([&, end = end] {
                struct stat st{};
                if (uses && ros2s_stat(fs, "/", &st) != 0) return 1;
                end();
                return 1;
            });
            ASSERT_EQ(ended, wanted) << name << ", turn " << i;
        }
    }
    // daemon(3): the parent ends first.
    for (int i = 0; i < turns(turns_usual); ++i) {
        std::array<int, 2> told{};
        ASSERT_EQ(pipe(told.data()), 0);
        expect_child([&] {
            if (daemon(1, 1) != 0) return 1;
            alarm(patience_s);
            struct stat st{};
            const bool right = fs == nullptr || ros2s_stat(fs, "/", &st) == 0;
            const char said = right ? 'y' : 'n';
            [[maybe_unused]] const auto n = write(told[1], &said, 1);
            exit(0);
        });
        close(told[1]);
        char said = 0;
        EXPECT_EQ(read(told[0], &said, 1), 1);
        EXPECT_EQ(said, 'y');
        EXPECT_EQ(read(told[0], &said, 1), 0) << "it does not end";
        close(told[0]);
    }
}

TEST_P(Fork, ChildrenOfAnOpenParentEnd) {
    const Container fs(uri());
    check_ends(fs);
    EXPECT_EQ(write_file(fs, "a", "text"), 0);
}

TEST_P(Fork, ChildrenOfAParentThatHasClosedEnd) {
    ros2s_fs* fs = open_container(uri());
    EXPECT_EQ(ros2s_close(fs), 0);
    check_ends(nullptr);
}

// Each kind of container brings a library of its own.
TEST(ForkOfEmbedded, ChildrenEndWhateverWasOpenedBefore) {
    const Daemons pool(no_daemons);
    const Daemons daemons;
    for (const char* scheme : {"ros2s+local", "ros2s"}) {
        EXPECT_EQ(ros2s_close(open_container(daemons.uri(scheme))), 0);
    }
    const Container fs(pool.uri());
    check_ends(nullptr);
}

// A pool in the process does not keep a child from a server, nor a server from a pool.
TEST(ForkOfEmbedded, ChildOpensAServersContainer) {
    const Daemons pool(no_daemons);
    const Daemons daemons;
    const Container fs(pool.uri());
    expect_child([&] {
        ros2s_fs* own = nullptr;
        CHILD_CHECK(ros2s_open(daemons.uri("ros2s+dpu").c_str(), nullptr, &own, nullptr, 0) == 0);
        CHILD_CHECK(write_file(own, "a", "child") == 0);
        CHILD_CHECK(ros2s_close(own) == 0);
        // Through the engine that has it.
        CHILD_CHECK(ros2s_open(daemons.uri("ros2s+local").c_str(), nullptr, &own, nullptr, 0) == 0);
        CHILD_CHECK(read_text(own, "a") == "child");
        CHILD_CHECK(ros2s_close(own) == 0);
        return 0;
    });
}

// Only in a process that has opened no pool before: so ctest runs it.
TEST(ForkOfNetwork, ChildOpensAPoolItself) {
    const Daemons pool(no_daemons);
    const Daemons daemons;
    const Container fs(daemons.uri("ros2s"));
    expect_child([&] { return write_anew(pool.uri(), "a", "child"); });
}

// Through the engine that has the pool.
TEST(ForkOfNetwork, ChildUsesAPoolThroughItsEngine) {
    const Daemons daemons;
    const Container fs(daemons.uri("ros2s+local"));
    expect_child([&] { return write_file(fs, "a", "child"); });
    EXPECT_EQ(read_text(fs, "a"), "child");
}

}  // namespace
}  // namespace ros2s::tests
