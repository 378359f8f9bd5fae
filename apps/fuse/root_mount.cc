#include "root_mount.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>

#include "buffers.h"
#include "connection_guard.h"
#include "mount_point.h"
#include "ros2s/base/mount_table.h"
#include "ros2s/base/trusted_file.h"

namespace ros2s::fuse {
namespace {

int32_t errno_of(const Result<>& done) { return done ? 0 : to_errno(done.error()); }

// The mount is removed only while it is the one that was made: somebody may have unmounted it, and
// mounted something else there.
[[noreturn]] void serve(int requests, const std::string& mount_point, const std::string& device) {
    ::setsid();
    // It ends by the end of the other process, also where a service manager signals both.
    sigset_t all;
    sigfillset(&all);
    ::sigprocmask(SIG_SETMASK, &all, nullptr);
    const int null = ::open("/dev/null", O_RDWR);
    for (const int each : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(null, each);
    ::dup2(requests, STDERR_FILENO + 1);
    ::close_range(STDERR_FILENO + 2, ~0U, 0);
    if (::chdir("/") != 0) ::_exit(1);
    const auto is_there = [&] { return mounted_on(mount_point).device == device; };
    char what = 0;
    ssize_t count = 0;
    while ((count = ::read(STDERR_FILENO + 1, &what, 1)) > 0 || (count < 0 && errno == EINTR)) {
        if (count < 0) continue;
        const Result<> done = !is_there()   ? Result<>{}
                              : what == 'u' ? unmount_cleanly(mount_point)
                                            : write_back(mount_point);
        const int32_t reply = errno_of(done);
        if (::write(STDERR_FILENO + 1, &reply, sizeof reply) != sizeof reply) break;
    }
    if (is_there()) ::umount2(mount_point.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW);
    ::_exit(0);
}

}  // namespace

Result<std::unique_ptr<RootMount>> RootMount::make(const std::string& mount_point,
                                                   const std::string& source, Flags flags,
                                                   Report& report) {
    const auto failed = [&report, &mount_point](int cause) {
        return report.fail(fail_errno(cause).error(), "cannot mount on {}: {}", mount_point,
                           std::strerror(cause));
    };
    // Its path leads elsewhere as soon as another user may exchange a part of it.
    ROS2S_TRY(check_trusted(mount_point, report));
    Descriptor device(::open("/dev/fuse", O_RDWR | O_CLOEXEC));
    int ends[2];
    if (device.get() < 0 || ::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
        return failed(errno);
    }
    Descriptor here(ends[0]), there(ends[1]);
    const std::string options =
        fmt::format("fd={},rootmode=40000,user_id=0,group_id=0,default_permissions,max_read={}{}",
                    device.get(), transfer_bytes_max, flags.allow_other ? ",allow_other" : "");
    const unsigned long kernel_flags =
        MS_NOSUID | MS_NODEV | (flags.read_only ? MS_RDONLY : 0) | (flags.no_exec ? MS_NOEXEC : 0);
    if (::mount(source.c_str(), mount_point.c_str(), "fuse.ros2store", kernel_flags,
                options.c_str()) != 0) {
        return failed(errno);
    }
    const auto read_ahead_set = set_read_ahead(mount_point, transfer_bytes_max);
    const std::string made = mounted_on(mount_point).device;
    auto abort_file = open_abort_file(made);
    const pid_t helper = ::fork();
    if (helper == 0) {
        device = {};
        here = {};
        serve(there.get(), mount_point, made);
    }
    if (helper < 0) {
        const int cause = errno;
        ::umount2(mount_point.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW);
        return failed(cause);
    }
    return std::unique_ptr<RootMount>(
        new RootMount(std::move(device), std::move(here), std::move(abort_file), read_ahead_set));
}

RootMount::~RootMount() {
    ::shutdown(helper_.get(), SHUT_WR);
    char end = 0;
    while (::read(helper_.get(), &end, 1) < 0 && errno == EINTR) {
    }
}

Result<> RootMount::request(char what) const {
    int32_t reply = EIO;
    if (::send(helper_.get(), &what, 1, MSG_NOSIGNAL) != 1 ||
        ::read(helper_.get(), &reply, sizeof reply) != sizeof reply) {
        return fail_errno(EIO);
    }
    return reply == 0 ? Result<>{} : fail_errno(reply);
}

}  // namespace ros2s::fuse
