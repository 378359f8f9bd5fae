// For tests of forked children and of shared pools: a pool with its daemons, containers and files
// that are closed at the end, and children that print the check that failed.
#pragma once
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <source_location>
#include <string>
#include <system_error>

#include "ros2store/ros2store.h"

namespace ros2s::tests {

inline int run(const std::string& command) { return std::system(command.c_str()); }

// A pool directory, with its daemons.
constexpr const char* no_daemons = "--no-daemons ";
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
        // A ros2store-pool that still ends removes files, too.
        std::error_code ignored;
        for (int i = 0; i < 100 && std::filesystem::exists(parent_, ignored); ++i) {
            std::filesystem::remove_all(parent_, ignored);
        }
    }
    Daemons& operator=(Daemons&&) = delete;
    [[nodiscard]] std::string directory() const { return parent_ + "/pool"; }
    [[nodiscard]] std::string uri(const std::string& scheme = "ros2s+local") const {
        return scheme + ":///pool/main?dir=" + directory();
    }

  private:
    std::string parent_ = testing::TempDir() + "fork.XXXXXX";
};

inline ros2s_fs* open_container(const std::string& uri) {
    ros2s_fs* fs = nullptr;
    char error[1024];
    EXPECT_EQ(ros2s_open(uri.c_str(), nullptr, &fs, error, sizeof error), 0) << error;
    return fs;
}

// A container, and a file in it, that this process has open.
class Container {
  public:
    explicit Container(const std::string& uri) : fs_(open_container(uri)) {}
    ~Container() { EXPECT_EQ(ros2s_close(fs_), 0); }
    Container& operator=(Container&&) = delete;
    operator ros2s_fs*() const { return fs_; }  // NOLINT(google-explicit-constructor): as in C

  private:
    ros2s_fs* fs_;
};

class OpenFile {
  public:
    OpenFile(ros2s_fs* fs, const char* name, int flags) {
        EXPECT_EQ(ros2s_file_open(fs, name, flags, 0644, &file_), 0) << ros2s_last_error();
    }
    ~OpenFile() { EXPECT_EQ(ros2s_file_close(file_), 0); }
    OpenFile& operator=(OpenFile&&) = delete;
    operator ros2s_file*() const { return file_; }  // NOLINT(google-explicit-constructor): as in C

  private:
    ros2s_file* file_ = nullptr;
};

// A child's exit status; 1000 and more: a signal. A child that hangs is killed by SIGALRM.
constexpr int a_signal = 1000;
constexpr unsigned patience_s = 60;

inline pid_t start_child(const std::function<int()>& body) {
    fflush(nullptr);
    const pid_t child = fork();
    if (child == 0) {
        alarm(patience_s);
        _exit(body());
    }
    return child;
}

inline int end_of(pid_t child) {
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : a_signal + WTERMSIG(status);
}

inline int in_child(const std::function<int()>& body) { return end_of(start_child(body)); }

inline void expect_child(const std::function<int()>& body,
                         std::source_location at = std::source_location::current()) {
    EXPECT_EQ(in_child(body), 0) << "started in line " << at.line();
}

// How often a test starts children: as ROS2STORE_TEST_TURNS says, which is for `./dev nightly`.
inline int turns(int usual) {
    const char* const wanted = std::getenv("ROS2STORE_TEST_TURNS");
    return wanted == nullptr ? usual : std::atoi(wanted);
}

// For a child: it ends with the line of the first wrong answer.
#define CHILD_CHECK(condition)                                                              \
    do {                                                                                    \
        if (!(condition)) {                                                                 \
            fprintf(stderr, "line %d: %s: %s\n", __LINE__, #condition, ros2s_last_error()); \
            return 1;                                                                       \
        }                                                                                   \
    } while (false)

inline std::string read_text(ros2s_fs* fs, const std::string& name) {
    ros2s_file* file = nullptr;
    EXPECT_EQ(ros2s_file_open(fs, name.c_str(), O_RDONLY, 0, &file), 0) << ros2s_last_error();
    std::string text(4096, '\0');
    const ssize_t got = ros2s_pread(file, text.data(), text.size(), 0);
    EXPECT_GE(got, 0) << ros2s_last_error();
    text.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
    EXPECT_EQ(ros2s_file_close(file), 0);
    return text;
}

inline int write_file(ros2s_fs* fs, const std::string& name, const std::string& text) {
    ros2s_file* file = nullptr;
    CHILD_CHECK(ros2s_file_open(fs, name.c_str(), O_RDWR | O_CREAT, 0644, &file) == 0);
    CHILD_CHECK(ros2s_pwrite(file, text.data(), text.size(), 0) ==
                static_cast<ssize_t>(text.size()));
    CHILD_CHECK(ros2s_file_close(file) == 0);
    return 0;
}

// Opens the container again, and writes a file.
inline int write_anew(const std::string& uri, const std::string& name, const std::string& text) {
    ros2s_fs* own = nullptr;
    CHILD_CHECK(ros2s_open(uri.c_str(), nullptr, &own, nullptr, 0) == 0);
    CHILD_CHECK(write_file(own, name, text) == 0);
    CHILD_CHECK(ros2s_close(own) == 0);
    return 0;
}

// A test of each set-up.
class Fork : public testing::TestWithParam<const char*> {
  protected:
    [[nodiscard]] std::string uri() const { return daemons_.uri(GetParam()); }

    Daemons daemons_{GetParam() == std::string("ros2s+local") ? no_daemons : ""};
};
inline std::string set_up_of(const testing::TestParamInfo<const char*>& each) {
    const std::string scheme = each.param;
    return scheme == "ros2s" ? "direct" : scheme == "ros2s+dpu" ? "offload" : "embedded";
}

}  // namespace ros2s::tests
