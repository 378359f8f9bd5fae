#include "detached_program.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <vector>

#include "ros2s/runtime/kept_errno.h"

namespace ros2s {
namespace {

constexpr size_t stack_bytes = 64 << 10;

struct Start {
    std::vector<char*> arguments;
    std::vector<int> descriptors;
    std::byte* inner_stack_top;
    int error = 0;  // of exec; the memory is shared until then
};

// False: with errno.
bool pass(std::vector<int>& descriptors) {
    const int end = first_passed_descriptor + static_cast<int>(descriptors.size());
    // Out of the way first: one may have the number of another.
    for (int& each : descriptors) {
        each = ::fcntl(each, F_DUPFD, end);
        if (each < 0) return false;
    }
    const int null = ::open("/dev/null", O_RDWR);
    for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(null, standard);
    int number = first_passed_descriptor;
    for (const int each : descriptors) {
        if (::dup2(each, number++) < 0) return false;
    }
    ::close_range(static_cast<unsigned>(end), ~0U, 0);
    return true;
}

// In the new process, on a stack of its own in the memory of the old one.
int become_program(void* of) {
    auto& start = *static_cast<Start*>(of);
    ::setsid();  // the terminal's signals are for the program
    if (pass(start.descriptors)) ::execv(start.arguments[0], start.arguments.data());
    start.error = errno;
    ::_exit(127);
}

// The process between: it ends at once, so that init adopts the program. It has no exit signal.
int start_and_end(void* of) {
    auto& start = *static_cast<Start*>(of);
    if (::clone(become_program, start.inner_stack_top, CLONE_VM | CLONE_VFORK | SIGCHLD, of) < 0) {
        start.error = errno;
    }
    return 0;
}

}  // namespace

// fork() would copy the page tables of a large program, and run the fork handlers of all libraries.
int start_detached(std::span<const std::string> arguments, std::span<const int> descriptors) {
    const KeptErrno kept;
    void* const stacks = ::mmap(nullptr, 2 * stack_bytes, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (stacks == MAP_FAILED) return errno;
    auto* const base = static_cast<std::byte*>(stacks);
    Start start{.arguments = {},
                .descriptors = {descriptors.begin(), descriptors.end()},
                .inner_stack_top = base + stack_bytes};
    for (const std::string& each : arguments) {
        start.arguments.push_back(const_cast<char*>(each.c_str()));
    }
    start.arguments.push_back(nullptr);
    // The program's handlers must not run in its memory from another process.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const pid_t between =
        ::clone(start_and_end, base + 2 * stack_bytes, CLONE_VM | CLONE_VFORK, &start);
    if (between < 0) {
        start.error = errno;
    } else {
        while (::waitpid(between, nullptr, __WCLONE) < 0 && errno == EINTR) {
        }
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    ::munmap(stacks, 2 * stack_bytes);
    return start.error;
}

}  // namespace ros2s
