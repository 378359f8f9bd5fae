#include "signals.h"

#include <pthread.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "mount_point.h"

namespace ros2s::fuse {
namespace {

sigset_t stop_signals() noexcept {
    sigset_t set;
    sigemptyset(&set);
    for (const int each : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&set, each);
    return set;
}

}  // namespace

void block_stop_signals() noexcept {
    const sigset_t set = stop_signals();
    pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

Result<int> SignalWatch::open_descriptor() {
    const sigset_t set = stop_signals();
    const int descriptor = ::signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    if (descriptor < 0) return fail_errno(errno);
    return descriptor;
}

Task<> SignalWatch::watch(Server& server, std::string mount_point) {
    signalfd_siginfo signal{};
    for (;;) {
        co_await wait_.readable();
        if (wait_.cancelled()) co_return;
        if (::read(descriptor_, &signal, sizeof signal) == sizeof signal) break;
    }
    const auto unmounted = co_await blocking_.run(reactor_, [this, &mount_point] {
        return root_mount_ != nullptr ? root_mount_->unmount() : unmount_cleanly(mount_point);
    });
    if (unmounted) co_return;  // the kernel hung up, which ends the server
    log_.warning(mount_point + " is in use (" + describe(unmounted.error()) +
                 "): it is unmounted anyway; operations on its open files fail from now on");
    const auto written = co_await blocking_.run(reactor_, [this, &mount_point] {
        return root_mount_ != nullptr ? root_mount_->write_back() : write_back(mount_point);
    });
    if (!written) {
        log_.error("changes through shared mappings of files in " + mount_point + " may be lost (" +
                   describe(written.error()) + ")");
    }
    server.stop();
}

}  // namespace ros2s::fuse
