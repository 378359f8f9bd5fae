#include "ros2s/control/process/control_helper.h"

#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "ros2s/base/check.h"
#include "ros2s/control/process/helper_server.h"
#include "ros2s/runtime/detached_program.h"

namespace ros2s::control {
namespace {

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
        error = start_detached(std::array{program_}, std::array{pair[1]});
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
