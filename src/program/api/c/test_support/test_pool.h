// A pool in a new directory, for tests.
#pragma once
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ros2store/ros2store.h"

namespace ros2s::api::c {

// tests/api/pool_helper, running with the arguments; stdin and stdout are pipes.
class Helper {
  public:
    explicit Helper(std::vector<std::string> arguments) {
        arguments.insert(arguments.begin(), POOL_HELPER);
        std::vector<char*> argv;
        for (auto& each : arguments) argv.push_back(each.data());
        argv.push_back(nullptr);
        int to[2];
        int from[2];
        EXPECT_EQ(pipe2(to, O_CLOEXEC), 0);
        EXPECT_EQ(pipe2(from, O_CLOEXEC), 0);
        pid_ = fork();
        if (pid_ == 0) {
            dup2(to[0], STDIN_FILENO);
            dup2(from[1], STDOUT_FILENO);
            execv(argv[0], argv.data());
            _exit(127);
        }
        close(to[0]);
        close(from[1]);
        input_ = to[1];
        output_ = from[0];
    }
    ~Helper() {
        if (pid_ > 0) wait();
        close(output_);
    }
    Helper& operator=(Helper&&) = delete;
    [[nodiscard]] pid_t pid() const { return pid_; }
    // Up to the end of a line.
    [[nodiscard]] std::string read_line() const {
        std::string line;
        char byte = 0;
        while (read(output_, &byte, 1) == 1 && byte != '\n') line += byte;
        return line;
    }
    // Closes its input and returns its exit status.
    int wait() {
        close(input_);
        int status = 0;
        waitpid(std::exchange(pid_, -1), &status, 0);
        return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
    }

  private:
    pid_t pid_ = -1;
    int input_ = -1;
    int output_ = -1;
};

class TestPool {
  public:
    TestPool() {
        std::string path = testing::TempDir() + "ros2store.XXXXXX";
        EXPECT_NE(mkdtemp(path.data()), nullptr);
        directory_ = path + "/pool";
        parent_ = path;
        Helper helper({"make", directory_});
        EXPECT_EQ(helper.wait(), 0);
    }
    ~TestPool() { std::filesystem::remove_all(parent_); }
    TestPool& operator=(TestPool&&) = delete;

    [[nodiscard]] const std::string& directory() const { return directory_; }
    [[nodiscard]] std::string uri(const std::string& path = "") const {
        return "ros2s+local:///pool/main" + path + "?dir=" + directory_;
    }
    [[nodiscard]] ros2s_fs* open(const std::string& path = "") const {
        ros2s_fs* fs = nullptr;
        char error[512];
        EXPECT_EQ(ros2s_open(uri(path).c_str(), nullptr, &fs, error, sizeof error), 0) << error;
        return fs;
    }

  private:
    std::string parent_;
    std::string directory_;
};

// Removes everything in the container, so that the tests of a suite can share a pool: making a pool
// writes all of it.
inline void clear(ros2s_fs* fs, const std::string& path = "") {
    ros2s_dir* directory = nullptr;
    ASSERT_EQ(ros2s_opendir(fs, (path + "/").c_str(), &directory), 0) << ros2s_last_error();
    ros2s_dirent entry;
    while (ros2s_readdir(directory, &entry) == 1) {
        const std::string name = path + "/" + entry.name;
        if (S_ISDIR(entry.type)) {
            clear(fs, name);
            EXPECT_EQ(ros2s_rmdir(fs, name.c_str()), 0);
        } else {
            EXPECT_EQ(ros2s_unlink(fs, name.c_str()), 0);
        }
    }
    EXPECT_EQ(ros2s_closedir(directory), 0);
}

// A suite whose tests share a pool and find it empty.
class SharedPoolTest : public testing::Test {
  protected:
    static void SetUpTestSuite() { shared_ = std::make_unique<TestPool>(); }
    static void TearDownTestSuite() { shared_.reset(); }
    SharedPoolTest() : pool_(*shared_), fs_(pool_.open()) {}
    ~SharedPoolTest() override {
        clear(fs_);
        EXPECT_EQ(ros2s_close(fs_), 0) << ros2s_last_error();
    }

    static inline std::unique_ptr<TestPool> shared_;
    const TestPool& pool_;
    ros2s_fs* fs_;
};

}  // namespace ros2s::api::c
