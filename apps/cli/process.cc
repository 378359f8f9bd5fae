#include "process.h"

#include <limits.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

namespace ros2s::cli {

std::string sibling_program(const std::string& name) {
    char path[PATH_MAX];
    const ssize_t length = readlink("/proc/self/exe", path, sizeof path);
    if (length > 0 && length < static_cast<ssize_t>(sizeof path)) {
        std::string candidate(path, static_cast<size_t>(length));
        candidate.replace(candidate.rfind('/') + 1, std::string::npos, name);
        if (access(candidate.c_str(), X_OK) == 0) return candidate;
    }
    return name;
}

Result<int> run_program(const std::vector<std::string>& arguments) {
    std::vector<char*> values;
    values.reserve(arguments.size() + 1);
    for (const auto& argument : arguments) values.push_back(const_cast<char*>(argument.c_str()));
    values.push_back(nullptr);
    pid_t child = 0;
    const int failed = posix_spawnp(&child, values[0], nullptr, nullptr, values.data(), environ);
    if (failed != 0) return fail_errno(failed);
    int status = 0;
    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR) return fail_errno(errno);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace ros2s::cli
