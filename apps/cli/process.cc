#include "process.h"

#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

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

Result<int> run_program(const std::vector<std::string>& arguments, const std::string& output) {
    std::vector<char*> values;
    values.reserve(arguments.size() + 1);
    for (const auto& argument : arguments) values.push_back(const_cast<char*>(argument.c_str()));
    values.push_back(nullptr);
    pid_t child = 0;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    if (!output.empty()) {
        posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output.c_str(),
                                         O_WRONLY | O_CREAT | O_TRUNC, 0644);
    }
    const int failed = posix_spawnp(&child, values[0], &actions, nullptr, values.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    if (failed != 0) return fail_errno(failed);
    int status = 0;
    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR) return fail_errno(errno);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace ros2s::cli
