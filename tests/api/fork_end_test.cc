// How forked children end, through libros2store.so as programs have it.

#include <array>
#include <csignal>
#include <utility>

#include "forks.h"

namespace ros2s::tests {
namespace {

int turns() {
    const char* const wanted = std::getenv("ROS2STORE_TEST_TURNS");
    return wanted == nullptr ? 20 : std::atoi(wanted);
}

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
        for (int i = 0; i < turns(); ++i) {
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
    for (int i = 0; i < turns(); ++i) {
        std::array<int, 2> told{};
        ASSERT_EQ(pipe(told.data()), 0);
        EXPECT_EQ(in_child([&] {
                      if (daemon(1, 1) != 0) return 1;
                      alarm(patience_s);
                      struct stat st{};
                      const bool right = fs == nullptr || ros2s_stat(fs, "/", &st) == 0;
                      const char said = right ? 'y' : 'n';
                      [[maybe_unused]] const auto n = write(told[1], &said, 1);
                      exit(0);
                  }),
                  0);
        close(told[1]);
        char said = 0;
        EXPECT_EQ(read(told[0], &said, 1), 1);
        EXPECT_EQ(said, 'y');
        EXPECT_EQ(read(told[0], &said, 1), 0) << "it does not end";
        close(told[0]);
    }
}

TEST_P(ForkOnNetwork, ChildrenOfAnOpenParentEnd) {
    const Container fs(uri());
    check_ends(fs);
    EXPECT_EQ(write_file(fs, "a", "text"), 0);
}

TEST_P(ForkOnNetwork, ChildrenOfAParentThatHasClosedEnd) {
    ros2s_fs* fs = open_container(uri());
    EXPECT_EQ(ros2s_close(fs), 0);
    check_ends(nullptr);
}

TEST(ForkOfEmbedded, ChildrenOfAnOpenParentEnd) {
    const Daemons pool("--no-daemons ");
    const Container fs(pool.uri("ros2s+local"));
    EXPECT_EQ(in_child([&] {
                  struct stat st{};
                  CHILD_CHECK(ros2s_stat(fs, "/", &st) == -EBADF);
                  CHILD_CHECK(ros2s_close(fs) == -EBADF);
                  return 0;
              }),
              0);
    check_ends(nullptr);
    EXPECT_EQ(write_file(fs, "a", "text"), 0);
}

TEST(ForkOfEmbedded, ChildrenOfAParentThatHasClosedEnd) {
    const Daemons pool("--no-daemons ");
    EXPECT_EQ(ros2s_close(open_container(pool.uri("ros2s+local"))), 0);
    check_ends(nullptr);
}

// Each kind of container brings a library of its own.
TEST(ForkOfEmbedded, ChildrenEndWhateverWasOpenedBefore) {
    const Daemons pool("--no-daemons ");
    const Daemons daemons;
    for (const char* scheme : {"ros2s+local", "ros2s"}) {
        EXPECT_EQ(ros2s_close(open_container(daemons.uri(scheme))), 0);
    }
    const Container fs(pool.uri("ros2s+local"));
    check_ends(nullptr);
}

}  // namespace
}  // namespace ros2s::tests
