#include "ros2s/control/process/control_helper.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "ros2s/base/check.h"
#include "ros2s/control/process/helper_server.h"
#include "ros2s/runtime/kept_errno.h"

namespace ros2s::control {
namespace {

// ---- starting a program that is not this process's child

constexpr size_t stack_bytes = 64 << 10;

struct Start {
    const char* program;
    int socket;
    std::array<char*, 2> arguments;
    std::byte* inner_stack_top;
    int error = 0;  // of exec; the memory is shared until then
};

// In the new process, on a stack of its own in the memory of the old one.
int become_program(void* of) {
    auto& start = *static_cast<Start*>(of);
    ::setsid();  // the terminal's signals are for the program
    const int socket = ::fcntl(start.socket, F_DUPFD, helper_socket + 1);
    const int null = ::open("/dev/null", O_RDWR);
    for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(null, standard);
    if (socket >= 0 && ::dup2(socket, helper_socket) == helper_socket) {
        ::close_range(helper_socket + 1, ~0U, 0);
        ::execv(start.program, start.arguments.data());
    }
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

// fork() would copy the page tables of a large program, and run the fork handlers of all libraries.
// Returns 0 or an errno.
int start_program(const std::string& program, int socket) {
    const KeptErrno kept;
    void* const stacks = ::mmap(nullptr, 2 * stack_bytes, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (stacks == MAP_FAILED) return errno;
    auto* const base = static_cast<std::byte*>(stacks);
    Start start{.program = program.c_str(),
                .socket = socket,
                .arguments = {const_cast<char*>(program.c_str()), nullptr},
                .inner_stack_top = base + stack_bytes};
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

// The handlers of fork() have no argument.
ControlHelper* helper_of_forks = nullptr;

}  // namespace

void ControlHelper::start_at_forks() {
    const std::scoped_lock lock(mutex_);
    if (std::exchange(starts_at_forks_, true)) return;
    helper_of_forks = this;
    const int failed = pthread_atfork(before_fork, after_fork, after_fork);
    ROS2S_CHECK(failed == 0);
}

// Without one, the child starts it, and gets the error.
void ControlHelper::before_fork() {
    auto& self = *helper_of_forks;
    self.mutex_.lock();
    Report unused;
    if (!self.has_helper()) (void)self.start(unused);
}

void ControlHelper::after_fork() { helper_of_forks->mutex_.unlock(); }

bool ControlHelper::has_helper() const {
    struct stat found{};
    if (socket_ < 0 || ::fstat(socket_, &found) != 0 || found.st_dev != device_ ||
        found.st_ino != inode_ || uid_ != ::geteuid() || gid_ != ::getegid()) {
        return false;
    }
    pollfd there{.fd = socket_, .events = 0, .revents = 0};
    return ::poll(&there, 1, 0) == 0;
}

Result<> ControlHelper::start(Report& report) {
    std::array<int, 2> pair{};
    // A number that was given to something else stays open.
    socket_ = -1;
    int error = 0;
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair.data()) != 0) {
        error = errno;
    } else {
        error = start_program(program_, pair[1]);
        ::close(pair[1]);
        struct stat made{};
        if (error == 0 && ::fstat(pair[0], &made) != 0) error = errno;
        if (error != 0) ::close(pair[0]);
        device_ = made.st_dev;
        inode_ = made.st_ino;
    }
    if (error != 0) {
        return report.fail(fail_errno(error).error(),
                           "a forked child calls servers through {}, which cannot be started: {}. "
                           "It belongs to libros2store: install the package ros2store again",
                           program_, std::strerror(error));
    }
    uid_ = ::geteuid();
    gid_ = ::getegid();
    // While it starts, its queue may be full of the requests of many children.
    const timeval limit{.tv_sec = 10, .tv_usec = 0};
    ::setsockopt(pair[0], SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    socket_ = pair[0];
    return {};
}

Result<fabric::Descriptor> ControlHelper::send(ConstBytes request, Report& report) {
    std::array<int, 2> pair{};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair.data()) != 0) {
        const auto error = fail_errno(errno).error();
        return report.fail(error, "cannot make a socket for a request to the control plane: {}",
                           describe(error));
    }
    fabric::Descriptor ours(pair[0]);
    const fabric::Descriptor theirs(pair[1]);
    const std::scoped_lock lock(mutex_);
    for (int attempt = 0;; ++attempt) {
        if (!has_helper()) ROS2S_TRY(start(report));
        if (fabric::send_message(socket_, request, theirs.get())) return ours;
        // It ended at this moment: nothing was done.
        if (errno == EPIPE && attempt == 0) continue;
        const auto error = fail_errno(errno).error();
        return report.fail(error, "cannot send a request to {}: {}", program_, describe(error));
    }
}

}  // namespace ros2s::control
