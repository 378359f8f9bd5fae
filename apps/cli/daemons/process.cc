#include "process.h"

#include <limits.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>

#include "ros2s/base/descriptor.h"

namespace ros2s::cli {

std::string own_directory() {
    char path[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path);
    if (length < 0) {
        // There is no /proc. The kernel also keeps the path of the program as it was started.
        const auto* const started = reinterpret_cast<const char*>(getauxval(AT_EXECFN));
        if (started == nullptr || realpath(started, path) == nullptr) return {};
        length = static_cast<ssize_t>(strlen(path));
    }
    if (length >= static_cast<ssize_t>(sizeof path)) return {};
    const std::string_view program(path, static_cast<size_t>(length));
    return std::string(program.substr(0, program.rfind('/')));
}

std::string sibling_program(const std::string& name) {
    const std::string candidate = own_directory() + "/" + name;
    return ::access(candidate.c_str(), X_OK) == 0 ? candidate : name;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
    std::vector<char*> pointers;
    for (auto& text : texts) pointers.push_back(text.data());
    pointers.push_back(nullptr);
    return pointers;
}

namespace {

// For a program's output.
Descriptor memory_file() { return Descriptor(::memfd_create("ros2store", MFD_CLOEXEC)); }

std::string text_in(const Descriptor& file) {
    std::string text(64 << 10, '\0');
    const ssize_t bytes = ::pread(file.get(), text.data(), text.size(), 0);
    text.resize(bytes > 0 ? static_cast<size_t>(bytes) : 0);
    return text;
}

}  // namespace

Result<ProgramSaid> run_program(std::vector<std::string> arguments, ProgramErrors errors) {
    const Descriptor output = memory_file(), complaints = memory_file();
    if (output.get() < 0 || complaints.get() < 0) return fail_errno(errno);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, output.get(), STDOUT_FILENO);
    if (errors == ProgramErrors::kept) {
        posix_spawn_file_actions_adddup2(&actions, complaints.get(), STDERR_FILENO);
    }
    pid_t child = 0;
    const int failed = posix_spawnp(&child, arguments[0].c_str(), &actions, nullptr,
                                    pointers_to(arguments).data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    if (failed != 0) return fail_errno(failed);
    int status = 0;
    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR) return fail_errno(errno);
    }
    return ProgramSaid{.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
                       .output = text_in(output),
                       .errors = text_in(complaints)};
}

}  // namespace ros2s::cli
