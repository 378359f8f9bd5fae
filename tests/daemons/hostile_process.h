// A hostile_client as a process. The test kills it at the end.
#pragma once
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "eventually.h"

namespace ros2s::tests {

class HostileProcess {
  public:
    // Waits until it works.
    explicit HostileProcess(const std::vector<std::string>& arguments) {
        int ends[2];
        EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
        std::vector<std::string> words{PROGRAM_HOSTILE};
        words.insert(words.end(), arguments.begin(), arguments.end());
        std::vector<char*> pointers;
        for (auto& word : words) pointers.push_back(word.data());
        pointers.push_back(nullptr);
        pid_ = ::fork();
        if (pid_ == 0) {
            ::dup2(ends[1], STDOUT_FILENO);
            ::execv(PROGRAM_HOSTILE, pointers.data());
            ::_exit(127);
        }
        ::close(ends[1]);
        char byte = 0;
        EXPECT_EQ(::read(ends[0], &byte, 1), 1) << "it has begun";
        ::close(ends[0]);
    }
    ~HostileProcess() {
        ::kill(pid_, SIGKILL);
        if (!is_waited_) ::waitpid(pid_, nullptr, 0);
    }
    HostileProcess& operator=(HostileProcess&&) = delete;
    // Waits until it has ended in any way, or has stopped.
    void wait() {
        int status = 0;
        EXPECT_TRUE(
            eventually([&] { return ::waitpid(pid_, &status, WNOHANG | WUNTRACED) == pid_; }));
        is_waited_ = !WIFSTOPPED(status);
        EXPECT_TRUE(!WIFEXITED(status) || WEXITSTATUS(status) == 0) << WEXITSTATUS(status);
    }

  private:
    pid_t pid_ = 0;
    bool is_waited_ = false;
};

}  // namespace ros2s::tests
