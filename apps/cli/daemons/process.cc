#include "process.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>

namespace ros2s::cli {

std::string own_directory() {
    char path[PATH_MAX];
    const ssize_t length = readlink("/proc/self/exe", path, sizeof path);
    if (length <= 0 || length >= static_cast<ssize_t>(sizeof path)) return {};
    const std::string_view program(path, static_cast<size_t>(length));
    return std::string(program.substr(0, program.rfind('/')));
}

std::string sibling_program(const std::string& name) {
    const std::string candidate = own_directory() + "/" + name;
    return access(candidate.c_str(), X_OK) == 0 ? candidate : name;
}

namespace {

// What a program's standard files are to be.
class FileActions {
  public:
    FileActions() { posix_spawn_file_actions_init(&actions_); }
    FileActions(const FileActions&) = delete;
    FileActions& operator=(const FileActions&) = delete;
    ~FileActions() { posix_spawn_file_actions_destroy(&actions_); }
    [[nodiscard]] posix_spawn_file_actions_t* get() { return &actions_; }

  private:
    posix_spawn_file_actions_t actions_{};
};

Result<pid_t> spawn(const std::vector<std::string>& arguments, FileActions& actions) {
    std::vector<char*> values;
    values.reserve(arguments.size() + 1);
    for (const auto& argument : arguments) values.push_back(const_cast<char*>(argument.c_str()));
    values.push_back(nullptr);
    pid_t child = 0;
    const int failed =
        posix_spawnp(&child, values[0], actions.get(), nullptr, values.data(), environ);
    if (failed != 0) return fail_errno(failed);
    return child;
}

Result<int> status_of(pid_t child) {
    int status = 0;
    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR) return fail_errno(errno);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

class Pipe {
  public:
    Pipe() = default;
    Pipe(const Pipe&) = delete;
    Pipe& operator=(const Pipe&) = delete;
    ~Pipe() {
        close_end(0);
        close_end(1);
    }
    Result<> open() {
        if (pipe2(ends_.data(), O_CLOEXEC) != 0) return fail_errno(errno);
        return {};
    }
    [[nodiscard]] int end(size_t which) const { return ends_[which]; }
    void close_end(size_t which) {
        if (ends_[which] >= 0) ::close(ends_[which]);
        ends_[which] = -1;
    }

  private:
    std::array<int, 2> ends_{-1, -1};
};

// Both at once: a program that fills one waits for its reader.
void read_both(Pipe& output, Pipe& errors, ProgramSaid& said) {
    constexpr size_t bytes_max = 64 << 10;
    std::array<std::pair<Pipe*, std::string*>, 2> readers{
        {{&output, &said.output}, {&errors, &said.errors}}};
    while (output.end(0) >= 0 || errors.end(0) >= 0) {
        std::array<pollfd, 2> waiting{
            {{.fd = output.end(0), .events = POLLIN}, {.fd = errors.end(0), .events = POLLIN}}};
        if (poll(waiting.data(), waiting.size(), -1) < 0 && errno != EINTR) return;
        for (size_t i = 0; i < waiting.size(); ++i) {
            if ((waiting[i].revents & (POLLIN | POLLHUP | POLLERR)) == 0) continue;
            std::array<char, 4096> buffer{};
            const ssize_t got = read(waiting[i].fd, buffer.data(), buffer.size());
            if (got < 0 && errno == EINTR) continue;
            if (got <= 0) {
                readers[i].first->close_end(0);
                continue;
            }
            std::string& text = *readers[i].second;
            text.append(buffer.data(), std::min(static_cast<size_t>(got), bytes_max - text.size()));
        }
    }
}

}  // namespace

Result<int> run_program(const std::vector<std::string>& arguments, const std::string& output) {
    FileActions actions;
    if (!output.empty()) {
        posix_spawn_file_actions_addopen(actions.get(), STDOUT_FILENO, output.c_str(),
                                         O_WRONLY | O_CREAT | O_TRUNC, 0644);
    }
    ROS2S_TRY_ASSIGN(const pid_t child, spawn(arguments, actions));
    return status_of(child);
}

Result<ProgramSaid> hear_program(const std::vector<std::string>& arguments) {
    Pipe output;
    Pipe errors;
    ROS2S_TRY(output.open());
    ROS2S_TRY(errors.open());
    FileActions actions;
    posix_spawn_file_actions_adddup2(actions.get(), output.end(1), STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(actions.get(), errors.end(1), STDERR_FILENO);
    ROS2S_TRY_ASSIGN(const pid_t child, spawn(arguments, actions));
    output.close_end(1);
    errors.close_end(1);
    ProgramSaid said;
    read_both(output, errors, said);
    ROS2S_TRY_ASSIGN(said.status, status_of(child));
    return said;
}

}  // namespace ros2s::cli
