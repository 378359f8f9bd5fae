// Handles in forked children, pools of other processes, and how children end, through
// libros2store.so as programs have it.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "ros2store/ros2store.h"

namespace ros2s::tests {
namespace {

using testing::HasSubstr;

int run(const std::string& command) { return std::system(command.c_str()); }

// A pool directory, with its daemons.
class Daemons {
  public:
    explicit Daemons(const std::string& options = "") {
        EXPECT_NE(mkdtemp(parent_.data()), nullptr);
        EXPECT_EQ(run(std::string(PROGRAM_CLI) + " up " + options + directory() +
                      " --size 128MiB >/dev/null"),
                  0);
    }
    ~Daemons() {
        run(std::string(PROGRAM_CLI) + " down " + directory() + " >/dev/null");
        std::filesystem::remove_all(parent_);
    }
    Daemons(const Daemons&) = delete;
    Daemons& operator=(const Daemons&) = delete;
    [[nodiscard]] std::string directory() const { return parent_ + "/pool"; }
    [[nodiscard]] std::string uri(const std::string& scheme) const {
        return scheme + ":///pool/main?dir=" + directory();
    }

  private:
    std::string parent_ = testing::TempDir() + "fork.XXXXXX";
};

ros2s_fs* open_container(const std::string& uri) {
    ros2s_fs* fs = nullptr;
    char error[1024];
    EXPECT_EQ(ros2s_open(uri.c_str(), nullptr, &fs, error, sizeof error), 0) << error;
    return fs;
}

// A child's exit status; 1000 and more: a signal. A child that hangs is killed by SIGALRM.
constexpr int a_signal = 1000;
constexpr unsigned patience_s = 60;

pid_t start_child(const std::function<int()>& body) {
    fflush(nullptr);
    const pid_t child = fork();
    if (child == 0) {
        alarm(patience_s);
        _exit(body());
    }
    return child;
}

int end_of(pid_t child) {
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : a_signal + WTERMSIG(status);
}

int in_child(const std::function<int()>& body) { return end_of(start_child(body)); }

// For a child: it ends with the line of the first wrong answer.
#define CHILD_CHECK(condition)                                                              \
    do {                                                                                    \
        if (!(condition)) {                                                                 \
            fprintf(stderr, "line %d: %s: %s\n", __LINE__, #condition, ros2s_last_error()); \
            return 1;                                                                       \
        }                                                                                   \
    } while (false)

std::string read_text(ros2s_fs* fs, const std::string& name) {
    ros2s_file* file = nullptr;
    EXPECT_EQ(ros2s_file_open(fs, name.c_str(), O_RDONLY, 0, &file), 0) << ros2s_last_error();
    std::string text(4096, '\0');
    const ssize_t got = ros2s_pread(file, text.data(), text.size(), 0);
    EXPECT_GE(got, 0) << ros2s_last_error();
    text.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
    EXPECT_EQ(ros2s_file_close(file), 0);
    return text;
}

int write_file(ros2s_fs* fs, const std::string& name, const std::string& text) {
    ros2s_file* file = nullptr;
    CHILD_CHECK(ros2s_file_open(fs, name.c_str(), O_RDWR | O_CREAT, 0644, &file) == 0);
    CHILD_CHECK(ros2s_pwrite(file, text.data(), text.size(), 0) ==
                static_cast<ssize_t>(text.size()));
    CHILD_CHECK(ros2s_file_close(file) == 0);
    return 0;
}

class Fork : public testing::TestWithParam<const char*> {
  protected:
    [[nodiscard]] std::string uri() const { return daemons_.uri(GetParam()); }

    Daemons daemons_{GetParam() == std::string("ros2s+local") ? "--no-daemons " : ""};
};
std::string set_up_of(const testing::TestParamInfo<const char*>& each) {
    const std::string scheme = each.param;
    return scheme == "ros2s" ? "direct" : scheme == "ros2s+dpu" ? "offload" : "embedded";
}
INSTANTIATE_TEST_SUITE_P(, Fork, testing::Values("ros2s", "ros2s+dpu", "ros2s+local"), set_up_of);
class ForkOnNetwork : public Fork {};
INSTANTIATE_TEST_SUITE_P(, ForkOnNetwork, testing::Values("ros2s", "ros2s+dpu"), set_up_of);

TEST_P(Fork, ChildUsesFilesOfTheParent) {
    ros2s_fs* fs = open_container(uri());
    ros2s_file* file = nullptr;
    ASSERT_EQ(ros2s_file_open(fs, "a", O_RDWR | O_CREAT | O_EXCL, 0644, &file), 0);
    ASSERT_EQ(ros2s_pwrite(file, "parent", 6, 0), 6);
    EXPECT_EQ(in_child([&] {
                  char text[8] = {};
                  struct stat st{};
                  CHILD_CHECK(ros2s_pread(file, text, sizeof text, 0) == 6);
                  CHILD_CHECK(std::string(text) == "parent");
                  CHILD_CHECK(ros2s_fstat(file, &st) == 0 && st.st_size == 6);
                  CHILD_CHECK(ros2s_pwrite(file, " child", 6, 6) == 6);
                  CHILD_CHECK(ros2s_ftruncate(file, 11) == 0);
                  CHILD_CHECK(ros2s_stat(fs, "a", &st) == 0 && st.st_size == 11);
                  CHILD_CHECK(ros2s_close(fs) == -EBUSY);
                  CHILD_CHECK(ros2s_file_close(file) == 0);
                  CHILD_CHECK(ros2s_mkdir(fs, "of child", 0755) == 0);
                  CHILD_CHECK(ros2s_close(fs) == 0);
                  return 0;
              }),
              0);
    char text[16] = {};
    EXPECT_EQ(ros2s_pread(file, text, sizeof text, 0), 11);
    EXPECT_STREQ(text, "parent chil");
    EXPECT_EQ(ros2s_pwrite(file, "P", 1, 0), 1);
    EXPECT_EQ(read_text(fs, "a"), "Parent chil");
    EXPECT_EQ(ros2s_file_close(file), 0);
    EXPECT_EQ(ros2s_rmdir(fs, "of child"), 0);
    EXPECT_EQ(ros2s_close(fs), 0);
}

TEST_P(Fork, ChildClosesUnusedHandlesWithoutARequest) {
    ros2s_fs* fs = open_container(uri());
    ros2s_file* file = nullptr;
    ros2s_dir* directory = nullptr;
    ros2s_queue* queue = nullptr;
    ASSERT_EQ(write_file(fs, "a", "text"), 0);
    ASSERT_EQ(ros2s_file_open(fs, "a", O_RDONLY, 0, &file), 0);
    ASSERT_EQ(ros2s_opendir(fs, "", &directory), 0);
    ASSERT_EQ(ros2s_queue_create(fs, 4, &queue), 0);
    EXPECT_EQ(in_child([&] {
                  CHILD_CHECK(ros2s_queue_destroy(queue) == 0);
                  CHILD_CHECK(ros2s_closedir(directory) == 0);
                  CHILD_CHECK(ros2s_file_close(file) == 0);
                  CHILD_CHECK(ros2s_close(fs) == 0);
                  return 0;
              }),
              0);
    char text[8] = {};
    ros2s_dirent entry;
    const ros2s_request nop{};
    ros2s_completion completion;
    EXPECT_EQ(ros2s_pread(file, text, sizeof text, 0), 4);
    EXPECT_EQ(ros2s_readdir(directory, &entry), 1);
    EXPECT_EQ(ros2s_queue_submit(queue, &nop, 1), 1);
    EXPECT_EQ(ros2s_queue_reap(queue, &completion, 1, 1, -1), 1);
    EXPECT_EQ(ros2s_queue_destroy(queue), 0);
    EXPECT_EQ(ros2s_closedir(directory), 0);
    EXPECT_EQ(ros2s_file_close(file), 0);
    EXPECT_EQ(ros2s_close(fs), 0);
}

TEST_P(Fork, ChildAndGrandchildOpenAnew) {
    for (const bool closes : {false, true}) {
        ros2s_fs* fs = open_container(uri());
        if (closes) EXPECT_EQ(ros2s_close(fs), 0);
        const auto use = [&](const char* name) {
            ros2s_fs* own = nullptr;
            CHILD_CHECK(ros2s_open(uri().c_str(), nullptr, &own, nullptr, 0) == 0);
            CHILD_CHECK(write_file(own, name, name) == 0);
            CHILD_CHECK(ros2s_close(own) == 0);
            return 0;
        };
        EXPECT_EQ(in_child([&] {
                      CHILD_CHECK(use("child") == 0);
                      return in_child([&] {
                          CHILD_CHECK(use("grandchild") == 0);
                          return 0;
                      });
                  }),
                  0);
        if (closes) fs = open_container(uri());
        EXPECT_EQ(read_text(fs, "child"), "child");
        EXPECT_EQ(read_text(fs, "grandchild"), "grandchild");
        EXPECT_EQ(ros2s_close(fs), 0);
    }
}

TEST_P(Fork, GrandchildUsesHandlesOfBothAncestors) {
    ros2s_fs* fs = open_container(uri());
    ros2s_file* file = nullptr;
    ASSERT_EQ(ros2s_file_open(fs, "a", O_RDWR | O_CREAT, 0644, &file), 0);
    EXPECT_EQ(in_child([&] {
                  ros2s_file* own = nullptr;
                  CHILD_CHECK(ros2s_pwrite(file, "1", 1, 0) == 1);
                  CHILD_CHECK(ros2s_file_open(fs, "b", O_RDWR | O_CREAT, 0644, &own) == 0);
                  const int grandchild = in_child([&] {
                      CHILD_CHECK(ros2s_pwrite(file, "2", 1, 1) == 1);
                      CHILD_CHECK(ros2s_pwrite(own, "2", 1, 0) == 1);
                      return 0;
                  });
                  CHILD_CHECK(ros2s_pwrite(own, "1", 1, 1) == 1);
                  return grandchild;
              }),
              0);
    EXPECT_EQ(ros2s_pwrite(file, "0", 1, 2), 1);
    EXPECT_EQ(read_text(fs, "a"), "120");
    EXPECT_EQ(read_text(fs, "b"), "21");
    EXPECT_EQ(ros2s_file_close(file), 0);
    EXPECT_EQ(ros2s_close(fs), 0);
}

// Operations of two processes under one name would be taken for repetitions.
TEST_P(Fork, NoWriteOfAnyProcessIsLost) {
    constexpr int children = 4;
    constexpr int rounds = 100;
    ros2s_fs* fs = open_container(uri());
    const auto write_all = [&](int who) {
        ros2s_file* file = nullptr;
        const std::string name = "of " + std::to_string(who);
        CHILD_CHECK(ros2s_file_open(fs, name.c_str(), O_RDWR | O_CREAT, 0644, &file) == 0);
        for (int i = 0; i < rounds; ++i) {
            const std::string text = std::to_string(who) + ":" + std::to_string(i) + "\n";
            CHILD_CHECK(
                ros2s_pwrite(file, text.data(), text.size(), static_cast<uint64_t>(i) * 16) ==
                static_cast<ssize_t>(text.size()));
        }
        CHILD_CHECK(ros2s_file_close(file) == 0);
        return 0;
    };
    ASSERT_EQ(write_all(0), 0);
    std::vector<pid_t> started;
    for (int who = 1; who <= children; ++who) {
        started.push_back(start_child([&] { return write_all(who); }));
    }
    EXPECT_EQ(write_all(children + 1), 0);
    for (const pid_t each : started) EXPECT_EQ(end_of(each), 0);
    for (int who = 0; who <= children + 1; ++who) {
        const std::string text = read_text(fs, "of " + std::to_string(who));
        for (int i = 0; i < rounds; ++i) {
            const std::string wanted = std::to_string(who) + ":" + std::to_string(i) + "\n";
            ASSERT_EQ(text.substr(static_cast<size_t>(i) * 16, wanted.size()), wanted);
        }
    }
    EXPECT_EQ(ros2s_close(fs), 0);
}

TEST_P(Fork, ChildContinuesADirectoryWhereTheParentWas) {
    constexpr int files = 600;  // more than two batches
    ros2s_fs* fs = open_container(uri());
    ros2s_dir* directory = nullptr;
    for (int i = 0; i < files; ++i) {
        ros2s_file* file = nullptr;
        const std::string name = "f" + std::to_string(i);
        ASSERT_EQ(ros2s_file_open(fs, name.c_str(), O_RDWR | O_CREAT, 0644, &file), 0);
        ASSERT_EQ(ros2s_file_close(file), 0);
    }
    ASSERT_EQ(ros2s_opendir(fs, "", &directory), 0);
    const auto read_on = [&](std::set<std::string>& into, size_t most) {
        ros2s_dirent entry;
        for (; most > 0 && ros2s_readdir(directory, &entry) == 1; --most) {
            if (!into.insert(entry.name).second) return false;
        }
        return true;
    };
    std::set<std::string> seen;
    for (const size_t before : {size_t{0}, size_t{1}, size_t{255}, size_t{1}, size_t{300}}) {
        ASSERT_TRUE(read_on(seen, before));
        EXPECT_EQ(in_child([&] {
                      std::set<std::string> all = seen;
                      CHILD_CHECK(read_on(all, SIZE_MAX));
                      CHILD_CHECK(all.size() == files);
                      CHILD_CHECK(ros2s_closedir(directory) == 0);
                      return 0;
                  }),
                  0)
            << seen.size();
    }
    // The name where the child continues can be gone.
    ros2s_dirent last;
    ASSERT_EQ(ros2s_readdir(directory, &last), 1);
    seen.insert(last.name);
    ASSERT_EQ(ros2s_unlink(fs, last.name), 0);
    EXPECT_EQ(in_child([&] {
                  std::set<std::string> all = seen;
                  CHILD_CHECK(read_on(all, SIZE_MAX));
                  CHILD_CHECK(all.size() == files);
                  return 0;
              }),
              0);
    ASSERT_TRUE(read_on(seen, SIZE_MAX));
    EXPECT_EQ(seen.size(), files);
    EXPECT_EQ(ros2s_closedir(directory), 0);
    EXPECT_EQ(ros2s_close(fs), 0);
}

TEST_P(Fork, QueuedRequestsAreCancelledInTheChildOnly) {
    constexpr uint32_t depth = 8;
    ros2s_fs* fs = open_container(uri());
    ros2s_queue* queue = nullptr;
    ros2s_file* file = nullptr;
    ASSERT_EQ(ros2s_queue_create(fs, depth, &queue), 0);
    ASSERT_EQ(ros2s_file_open(fs, "a", O_RDWR | O_CREAT, 0644, &file), 0);
    std::array<ros2s_completion, depth> completions{};
    uint64_t next = 0;
    std::set<uint64_t> pending;
    const auto submit = [&](uint32_t count) {
        for (uint32_t i = 0; i < count; ++i, ++next) {
            static char byte = 'x';
            const bool writes = next % 3 == 0;
            ros2s_request request{};
            request.opcode = writes ? ROS2S_OP_WRITE : ROS2S_OP_NOP;
            request.file = writes ? file : nullptr;
            request.address = writes ? &byte : nullptr;
            request.bytes = writes ? 1 : 0;
            request.user_data = next;
            ASSERT_EQ(ros2s_queue_submit(queue, &request, 1), 1);
            pending.insert(next);
        }
    };
    const auto reap = [&](uint32_t count) {
        ASSERT_EQ(ros2s_queue_reap(queue, completions.data(), count, count, -1),
                  static_cast<int>(count));
        for (uint32_t i = 0; i < count; ++i) {
            ASSERT_EQ(pending.erase(completions.at(i).user_data), 1U);
            ASSERT_GE(completions.at(i).result, 0);
        }
    };
    for (uint32_t i = 0; i < 20; ++i) {
        submit(depth - static_cast<uint32_t>(pending.size()));
        reap(1 + i % 5);
    }
    EXPECT_EQ(in_child([&] {
                  const auto count = static_cast<uint32_t>(pending.size());
                  CHILD_CHECK(ros2s_queue_reap(queue, completions.data(), depth, depth, -1) ==
                              static_cast<int>(count));
                  for (uint32_t i = 0; i < count; ++i) {
                      CHILD_CHECK(completions.at(i).result == -ECANCELED);
                      CHILD_CHECK(pending.erase(completions.at(i).user_data) == 1);
                  }
                  char text = 0;
                  ros2s_request request{.opcode = ROS2S_OP_READ,
                                        .file = file,
                                        .address = &text,
                                        .bytes = 1,
                                        .user_data = 77};
                  CHILD_CHECK(ros2s_queue_submit(queue, &request, 1) == 1);
                  CHILD_CHECK(ros2s_queue_reap(queue, completions.data(), 1, 1, -1) == 1);
                  CHILD_CHECK(completions[0].user_data == 77 && completions[0].result == 1);
                  pollfd readable{.fd = ros2s_queue_fd(queue), .events = POLLIN, .revents = 0};
                  request.opcode = ROS2S_OP_NOP;
                  CHILD_CHECK(ros2s_queue_submit(queue, &request, 1) == 1);
                  CHILD_CHECK(poll(&readable, 1, 30'000) == 1);
                  CHILD_CHECK(ros2s_queue_reap(queue, completions.data(), 1, 1, -1) == 1);
                  CHILD_CHECK(ros2s_queue_destroy(queue) == 0);
                  return 0;
              }),
              0);
    reap(static_cast<uint32_t>(pending.size()));
    EXPECT_TRUE(pending.empty());
    EXPECT_EQ(ros2s_queue_destroy(queue), 0);
    EXPECT_EQ(ros2s_file_close(file), 0);
    EXPECT_EQ(ros2s_close(fs), 0);
}

TEST_P(Fork, LocksStayTheParents) {
    ros2s_fs* fs = open_container(uri());
    ros2s_file* file = nullptr;
    ASSERT_EQ(ros2s_file_open(fs, "a", O_RDWR | O_CREAT, 0644, &file), 0);
    ASSERT_EQ(ros2s_flock(file, LOCK_EX), 0) << ros2s_last_error();
    EXPECT_EQ(
        in_child([&] {
            CHILD_CHECK(ros2s_flock(file, LOCK_UN) == -ENOLCK);
            CHILD_CHECK(std::string_view(ros2s_last_error()).contains("opened before fork()"));
            struct flock range{};
            range.l_type = F_WRLCK;
            CHILD_CHECK(ros2s_lock(file, F_OFD_SETLK, &range) == -ENOLCK);
            CHILD_CHECK(ros2s_pwrite(file, "x", 1, 0) == 1);
            ros2s_file* own = nullptr;
            CHILD_CHECK(ros2s_file_open(fs, "a", O_RDWR, 0, &own) == 0);
            CHILD_CHECK(ros2s_flock(own, LOCK_EX | LOCK_NB) == -EWOULDBLOCK);
            CHILD_CHECK(ros2s_file_close(own) == 0);
            CHILD_CHECK(ros2s_file_close(file) == 0);
            return 0;
        }),
        0);
    // The child has released nothing.
    ros2s_file* other = nullptr;
    ASSERT_EQ(ros2s_file_open(fs, "a", O_RDWR, 0, &other), 0);
    EXPECT_EQ(ros2s_flock(other, LOCK_EX | LOCK_NB), -EWOULDBLOCK);
    EXPECT_EQ(ros2s_file_close(other), 0);
    EXPECT_EQ(ros2s_flock(file, LOCK_UN), 0);
    EXPECT_EQ(ros2s_file_close(file), 0);
    EXPECT_EQ(ros2s_close(fs), 0);
}

TEST_P(Fork, UnlinkedFileStaysOpenInTheChild) {
    ros2s_fs* fs = open_container(uri());
    ros2s_file* file = nullptr;
    ASSERT_EQ(ros2s_file_open(fs, "a", O_RDWR | O_CREAT, 0644, &file), 0);
    ASSERT_EQ(ros2s_pwrite(file, "text", 4, 0), 4);
    ASSERT_EQ(ros2s_unlink(fs, "a"), 0);
    EXPECT_EQ(in_child([&] {
                  char text[8] = {};
                  CHILD_CHECK(ros2s_pread(file, text, sizeof text, 0) == 4);
                  return 0;
              }),
              0);
    EXPECT_EQ(ros2s_file_close(file), 0);
    EXPECT_EQ(ros2s_close(fs), 0);
}

TEST_P(Fork, ForkDuringIoOfOtherThreads) {
    constexpr int threads = 3;
    constexpr int forks = 10;
    ros2s_fs* fs = open_container(uri());
    std::atomic<bool> stops = false;
    std::atomic<int> wrong = 0;
    std::vector<std::thread> writers;
    for (int who = 0; who < threads; ++who) {
        writers.emplace_back([&, who] {
            ros2s_file* file = nullptr;
            const std::string name = "t" + std::to_string(who);
            if (ros2s_file_open(fs, name.c_str(), O_RDWR | O_CREAT, 0644, &file) != 0) ++wrong;
            for (uint64_t i = 0; !stops; ++i) {
                uint64_t back = 0;
                if (ros2s_pwrite(file, &i, sizeof i, 0) != sizeof i ||
                    ros2s_pread(file, &back, sizeof back, 0) != sizeof back || back != i) {
                    ++wrong;
                }
            }
            if (ros2s_file_close(file) != 0) ++wrong;
        });
    }
    for (int i = 0; i < forks; ++i) {
        EXPECT_EQ(in_child([&] { return write_file(fs, "c" + std::to_string(i), "child"); }), 0);
        EXPECT_EQ(read_text(fs, "c" + std::to_string(i)), "child");
    }
    stops = true;
    for (std::thread& each : writers) each.join();
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(ros2s_close(fs), 0);
}

TEST_P(Fork, ThreadsOfAChildRenewAHandleOnce) {
    ros2s_fs* fs = open_container(uri());
    ros2s_file* file = nullptr;
    ASSERT_EQ(ros2s_file_open(fs, "a", O_RDWR | O_CREAT, 0644, &file), 0);
    EXPECT_EQ(in_child([&] {
                  std::atomic<int> right = 0;
                  std::vector<std::thread> writers;
                  for (uint64_t i = 0; i < 8; ++i) {
                      writers.emplace_back([&, i] {
                          if (ros2s_pwrite(file, "x", 1, i) == 1) ++right;
                      });
                  }
                  for (std::thread& each : writers) each.join();
                  CHILD_CHECK(right == 8);
                  CHILD_CHECK(ros2s_file_close(file) == 0);
                  CHILD_CHECK(ros2s_close(fs) == 0);
                  return 0;
              }),
              0);
    EXPECT_EQ(read_text(fs, "a"), "xxxxxxxx");
    EXPECT_EQ(ros2s_file_close(file), 0);
    EXPECT_EQ(ros2s_close(fs), 0);
}

// The helper is no child of this process, and closing all descriptors does not break it.
TEST_P(Fork, ProgramsThatCloseAllDescriptorsAndWaitForAllChildren) {
    ros2s_fs* fs = open_container(uri());
    EXPECT_EQ(in_child([&] {
                  close_range(3, ~0U, 0);
                  const int taken = open("/dev/null", O_RDWR);
                  CHILD_CHECK(taken == 3);
                  for (int i = 0; i < 60; ++i) CHILD_CHECK(dup(taken) > 0);
                  CHILD_CHECK(write_file(fs, "a", "child") == 0);
                  CHILD_CHECK(waitpid(-1, nullptr, 0) == -1 && errno == ECHILD);
                  return 0;
              }),
              0);
    EXPECT_EQ(waitpid(-1, nullptr, 0), -1);
    EXPECT_EQ(errno, ECHILD);
    EXPECT_EQ(read_text(fs, "a"), "child");
    EXPECT_EQ(ros2s_close(fs), 0);
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
    EXPECT_EQ(in_child([&] {
                  setenv("ROS2STORE_TEST_TAG", daemons_.directory().c_str(), 1);
                  CHILD_CHECK(use() == 0);
                  CHILD_CHECK(in_child(use) == 0);
                  const auto helpers = helpers_with(tag);
                  CHILD_CHECK(helpers.size() == 1);
                  CHILD_CHECK(in_child([&] { return in_child(use); }) == 0);
                  CHILD_CHECK(helpers_with(tag) == helpers);
                  return 0;
              }),
              0);
    for (int i = 0; i < 1000 && !helpers_with(tag).empty(); ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    EXPECT_TRUE(helpers_with(tag).empty());
}

// A killed helper is replaced.
TEST_P(ForkOnNetwork, ChildWorksAfterItsHelperWasKilled) {
    const std::string tag = "ROS2STORE_TEST_TAG=" + daemons_.directory();
    setenv("ROS2STORE_TEST_TAG", daemons_.directory().c_str(), 1);
    ros2s_fs* fs = open_container(uri());
    EXPECT_EQ(in_child([&] {
                  for (const std::string& each : helpers_with(tag)) {
                      kill(std::stoi(each), SIGKILL);
                  }
                  for (int i = 0; i < 1000 && !helpers_with(tag).empty(); ++i) {
                      std::this_thread::sleep_for(std::chrono::milliseconds(10));
                  }
                  return write_file(fs, "a", "child");
              }),
              0);
    EXPECT_EQ(read_text(fs, "a"), "child");
    EXPECT_EQ(ros2s_close(fs), 0);
}

// ---- the ends of children

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

TEST_P(Fork, ChildrenOfAnOpenParentEnd) {
    ros2s_fs* fs = open_container(uri());
    check_ends(fs);
    EXPECT_EQ(write_file(fs, "a", "text"), 0);
    EXPECT_EQ(ros2s_close(fs), 0);
}

TEST_P(Fork, ChildrenOfAParentThatHasClosedEnd) {
    ros2s_fs* fs = open_container(uri());
    EXPECT_EQ(ros2s_close(fs), 0);
    check_ends(nullptr);
}

// Each kind of container brings a library of its own.
TEST(ForkOfEmbedded, ChildrenEndWhateverWasOpenedBefore) {
    const Daemons pool("--no-daemons ");
    const Daemons daemons;
    for (const char* scheme : {"ros2s+local", "ros2s"}) {
        EXPECT_EQ(ros2s_close(open_container(daemons.uri(scheme))), 0);
    }
    ros2s_fs* fs = open_container(pool.uri("ros2s+local"));
    check_ends(nullptr);
    EXPECT_EQ(ros2s_close(fs), 0);
}

// A pool in the process does not keep a child from a server, nor a server from a pool.
TEST(ForkOfEmbedded, ChildOpensAServersContainer) {
    const Daemons pool("--no-daemons ");
    const Daemons daemons;
    ros2s_fs* fs = open_container(pool.uri("ros2s+local"));
    EXPECT_EQ(in_child([&] {
                  ros2s_fs* own = nullptr;
                  CHILD_CHECK(
                      ros2s_open(daemons.uri("ros2s+dpu").c_str(), nullptr, &own, nullptr, 0) == 0);
                  CHILD_CHECK(write_file(own, "a", "child") == 0);
                  CHILD_CHECK(ros2s_close(own) == 0);
                  // Through the engine that has it.
                  CHILD_CHECK(ros2s_open(daemons.uri("ros2s+local").c_str(), nullptr, &own, nullptr,
                                         0) == 0);
                  CHILD_CHECK(read_text(own, "a") == "child");
                  CHILD_CHECK(ros2s_close(own) == 0);
                  return 0;
              }),
              0);
    EXPECT_EQ(ros2s_close(fs), 0);
}

// ---- a pool that another process has open

std::string owner_of(const Daemons& pool) {
    std::ifstream file(pool.directory() + "/owner");
    return {std::istreambuf_iterator<char>(file), {}};
}

// Until `done`, for a minute at most.
bool wait_for(const std::function<bool()>& done) {
    const auto late = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (!done()) {
        if (std::chrono::steady_clock::now() > late) return false;
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return true;
}

TEST(PoolOfAnotherProcess, IsUsedThroughItsOwner) {
    const Daemons pool("--no-daemons ");
    const std::string uri = pool.uri("ros2s+local");
    ros2s_fs* fs = open_container(uri);
    EXPECT_EQ(run(POOL_HELPER " fill '" + uri + "' a 8192"), 0);
    EXPECT_EQ(read_text(fs, "a"), std::string(4096, 'x'));
    EXPECT_EQ(write_file(fs, "b", "text"), 0);
    EXPECT_EQ(run(POOL_HELPER " report '" + uri + "' b | grep -q 'through process .*fork_test'"),
              0);
    EXPECT_EQ(ros2s_close(fs), 0);
    EXPECT_EQ(owner_of(pool), "");
}

TEST(PoolOfAnotherProcess, IsFoundAgainInAnotherDirectory) {
    const Daemons pool("--no-daemons ");
    const auto before = std::filesystem::current_path();
    std::filesystem::current_path(pool.directory() + "/..");
    ros2s_fs* fs = open_container("ros2s+local:///pool/main?dir=pool");
    std::filesystem::current_path(before);
    EXPECT_EQ(in_child([&] { return write_file(fs, "a", "child"); }), 0);
    EXPECT_EQ(read_text(fs, "a"), "child");
    EXPECT_EQ(ros2s_close(fs), 0);
}

// The path of a socket in it would be too long.
TEST(PoolOfAnotherProcess, IsInADirectoryWithALongName) {
    const Daemons pool("--no-daemons ");
    const std::string moved = pool.directory() + std::string(110, 'l');
    std::filesystem::rename(pool.directory(), moved);
    const std::string uri = "ros2s+local:///pool/main?dir=" + moved;
    ros2s_fs* fs = open_container(uri);
    EXPECT_EQ(in_child([&] { return write_file(fs, "a", "child"); }), 0);
    EXPECT_EQ(read_text(fs, "a"), "child");
    EXPECT_EQ(ros2s_close(fs), 0);
    std::filesystem::rename(moved, pool.directory());
}

TEST(PoolOfAnotherProcess, IsRefusedToAnotherUser) {
    if (geteuid() != 0) GTEST_SKIP() << "needs root";
    const Daemons pool("--no-daemons ");
    ros2s_fs* fs = open_container(pool.uri("ros2s+local"));
    EXPECT_EQ(in_child([&] {
                  constexpr uid_t nobody = 65534;
                  CHILD_CHECK(setresuid(nobody, nobody, nobody) == 0);
                  ros2s_fs* own = nullptr;
                  CHILD_CHECK(ros2s_open(pool.uri("ros2s+local").c_str(), nullptr, &own, nullptr,
                                         0) == -EACCES);
                  return 0;
              }),
              0);
    EXPECT_EQ(ros2s_close(fs), 0);
}

TEST(PoolOfAnotherProcess, OwnersEndIsNoticedWhenItCloses) {
    const Daemons pool("--no-daemons ");
    ros2s_fs* fs = open_container(pool.uri("ros2s+local"));
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
    fs = open_container(pool.uri("ros2s+local"));
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

TEST(PoolOfAnotherProcess, ClosedUserIsNotAwaited) {
    const Daemons pool("--no-daemons ");
    ros2s_fs* fs = open_container(pool.uri("ros2s+local"));
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
TEST(PoolOfAnotherProcess, EndedUserIsNotAwaited) {
    const Daemons pool("--no-daemons ");
    ros2s_fs* fs = open_container(pool.uri("ros2s+local"));
    ASSERT_EQ(write_file(fs, "a", "before"), 0);
    EXPECT_EQ(in_child([&] {
                  struct stat st{};
                  ros2s_file* file = nullptr;
                  CHILD_CHECK(ros2s_stat(fs, "a", &st) == 0);
                  CHILD_CHECK(ros2s_file_open(fs, "a", O_RDWR, 0, &file) == 0);
                  CHILD_CHECK(ros2s_pwrite(file, "A", 1, 0) == 1);
                  CHILD_CHECK(ros2s_flock(file, LOCK_EX) == 0);
                  CHILD_CHECK(ros2s_stat(fs, "a", &st) == 0);
                  return 0;
              }),
              0);
    const auto begun = std::chrono::steady_clock::now();
    ros2s_file* file = nullptr;
    EXPECT_EQ(ros2s_chmod(fs, "a", 0600), 0);
    EXPECT_EQ(ros2s_file_open(fs, "a", O_RDWR, 0, &file), 0);
    EXPECT_EQ(ros2s_flock(file, LOCK_EX), 0);
    EXPECT_EQ(ros2s_file_close(file), 0);
    EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(1));
    EXPECT_TRUE(wait_for([&] { return clients_awaited(pool) == 0; }));
    EXPECT_EQ(ros2s_close(fs), 0);
}

// The threads of what a pool needs run from the beginning of its opening.
TEST(PoolOfAnotherProcess, ChildDuringOpenUsesThePoolToo) {
    const Daemons pool("--no-daemons ");
    // As if a process that had just taken the pool had it.
    const int held =
        open((pool.directory() + "/owner").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    struct flock whole{};
    whole.l_type = F_WRLCK;
    ASSERT_EQ(fcntl(held, F_OFD_SETLK, &whole), 0);
    std::thread opening([&] {
        ros2s_fs* fs = open_container(pool.uri("ros2s+local"));
        EXPECT_EQ(write_file(fs, "a", "parent"), 0);
        EXPECT_EQ(ros2s_close(fs), 0);
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    const pid_t child = start_child([&] {
        close(held);
        ros2s_fs* own = nullptr;
        CHILD_CHECK(ros2s_open(pool.uri("ros2s+local").c_str(), nullptr, &own, nullptr, 0) == 0);
        CHILD_CHECK(write_file(own, "b", "child") == 0);
        CHILD_CHECK(ros2s_close(own) == 0);
        return 0;
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

TEST(PoolOfAnotherProcess, KilledOwnerIsReplacedAndNothingAcknowledgedIsLost) {
    constexpr int writers = 4;
    constexpr int writes = 600;
    constexpr int names_every = 50;
    constexpr uint64_t record_bytes = 16;
    const Daemons pool("--no-daemons ");
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
        ros2s_fs* fs = open_container(pool.uri("ros2s+local"));
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
    EXPECT_TRUE(wait_for([&] { return shared.acknowledged.at(1) > before + 10; }));
    const std::string replaced = owner_of(pool);
    EXPECT_THAT(replaced, HasSubstr("program: ros2store-pool\n"));
    EXPECT_EQ(run(PROGRAM_CLI " status " + pool.directory() + " | grep -q 'used by *process'"), 0);
    kill(std::stoi(replaced.substr(replaced.find(' '))), SIGKILL);
    // The children of the owner hold the pipe until they have ended.
    close(alive[1]);
    char byte = 0;
    EXPECT_EQ(read(alive[0], &byte, 1), 0);
    close(alive[0]);
    ros2s_fs* fs = open_container(pool.uri("ros2s+local"));
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
TEST(PoolOfAnotherProcess, UsersOfAPoolThatCannotBeOpenedAgainGetAnError) {
    constexpr auto most = std::chrono::seconds(30);
    const Daemons pool("--no-daemons ");
    const std::string config = pool.directory() + "/config.yaml", away = config + ".away";
    std::array<int, 2> ready{}, ended{};
    ASSERT_EQ(pipe(ready.data()), 0);
    ASSERT_EQ(pipe(ended.data()), 0);
    char byte = 0;
    const pid_t owner = start_child([&] {
        ros2s_fs* fs = open_container(pool.uri("ros2s+local"));
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
TEST(PoolOfAnotherProcess, DaemonGoesOnWithThePoolOfItsParent) {
    const Daemons pool("--no-daemons ");
    std::array<int, 2> told{};
    ASSERT_EQ(pipe(told.data()), 0);
    EXPECT_EQ(in_child([&] {
                  ros2s_fs* fs = open_container(pool.uri("ros2s+local"));
                  CHILD_CHECK(write_file(fs, "a", "before") == 0);
                  if (daemon(1, 1) != 0) return 1;
                  alarm(patience_s);
                  const bool right = read_text(fs, "a") == "before" &&
                                     write_file(fs, "b", "after") == 0 && ros2s_close(fs) == 0;
                  const char said = right ? 'y' : 'n';
                  [[maybe_unused]] const auto n = write(told[1], &said, 1);
                  return 0;
              }),
              0);
    close(told[1]);
    char said = 0;
    EXPECT_EQ(read(told[0], &said, 1), 1);
    EXPECT_EQ(said, 'y');
    close(told[0]);
    ros2s_fs* fs = open_container(pool.uri("ros2s+local"));
    EXPECT_EQ(read_text(fs, "b"), "after");
    EXPECT_EQ(ros2s_close(fs), 0);
}

// ros2store-pool opens it for all of them.
TEST(PoolOfAnotherProcess, ChildrenOpenAPoolThatTheirParentHasClosed) {
    constexpr int children = 4;
    const Daemons pool("--no-daemons ");
    EXPECT_EQ(ros2s_close(open_container(pool.uri("ros2s+local"))), 0);
    std::vector<pid_t> started;
    for (int i = 0; i < children; ++i) {
        started.push_back(start_child([&] {
            ros2s_fs* own = nullptr;
            CHILD_CHECK(ros2s_open(pool.uri("ros2s+local").c_str(), nullptr, &own, nullptr, 0) ==
                        0);
            CHILD_CHECK(write_file(own, "c" + std::to_string(i), "child") == 0);
            CHILD_CHECK(ros2s_close(own) == 0);
            return 0;
        }));
    }
    for (const pid_t each : started) EXPECT_EQ(end_of(each), 0);
    ros2s_fs* fs = open_container(pool.uri("ros2s+local"));
    for (int i = 0; i < children; ++i) EXPECT_EQ(read_text(fs, "c" + std::to_string(i)), "child");
    EXPECT_EQ(ros2s_close(fs), 0);
}

// Only in a process that has opened no pool before: so ctest runs it.
TEST(ForkOfNetwork, ChildOpensAPoolItself) {
    const Daemons pool("--no-daemons ");
    const Daemons daemons;
    ros2s_fs* fs = open_container(daemons.uri("ros2s"));
    EXPECT_EQ(in_child([&] {
                  ros2s_fs* own = nullptr;
                  CHILD_CHECK(
                      ros2s_open(pool.uri("ros2s+local").c_str(), nullptr, &own, nullptr, 0) == 0);
                  CHILD_CHECK(write_file(own, "a", "child") == 0);
                  CHILD_CHECK(ros2s_close(own) == 0);
                  return 0;
              }),
              0);
    EXPECT_EQ(ros2s_close(fs), 0);
}

// Through the engine that has the pool.
TEST(ForkOfNetwork, ChildUsesAPoolThroughItsEngine) {
    const Daemons daemons;
    ros2s_fs* fs = open_container(daemons.uri("ros2s+local"));
    EXPECT_EQ(in_child([&] { return write_file(fs, "a", "child"); }), 0);
    EXPECT_EQ(read_text(fs, "a"), "child");
    EXPECT_EQ(ros2s_close(fs), 0);
}

}  // namespace
}  // namespace ros2s::tests
