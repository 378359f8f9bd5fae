#include "connection_guard.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <string_view>

namespace ros2s::fuse {
namespace {

// A file system's number. Asks no process that serves it.
struct Device {
    uint32_t major = 0, minor = 0;
    friend bool operator==(const Device&, const Device&) = default;
};
Device device_at(const char* path) noexcept {
    struct statx found{};
    ::statx(AT_FDCWD, path, AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT, 0, &found);
    return {found.stx_dev_major, found.stx_dev_minor};
}

void wait_for_end_of(pid_t guarded) noexcept {
    sigset_t all, end;
    sigfillset(&all);
    ::sigprocmask(SIG_SETMASK, &all, nullptr);
    sigemptyset(&end);
    sigaddset(&end, SIGUSR1);
    ::prctl(PR_SET_PDEATHSIG, SIGUSR1);
    // Others may send this signal, too.
    siginfo_t sent{};
    while (::getppid() == guarded && sent.si_pid != guarded) ::sigwaitinfo(&end, &sent);
}

// The process that this one is a copy of has threads: only system calls are safe here.
[[noreturn]] void guard(pid_t guarded, int abort_file, const char* mount_point, Device device,
                        std::span<char> command_line) {
    constexpr int kept = 0;
    constexpr std::string_view name = "ros2store-fuse: guard";
    std::ranges::fill(command_line, '\0');
    std::ranges::copy(name.substr(0, command_line.size()), command_line.begin());
    if (abort_file > kept) ::dup2(abort_file, kept);
    ::close_range(abort_file < 0 ? kept : kept + 1, ~0U, 0);
    ::setsid();
    ::prctl(PR_SET_NAME, "ros2store-guard");
    if (::chdir("/") != 0) ::_exit(1);
    wait_for_end_of(guarded);
    // This does nothing to a connection that has ended.
    const bool is_aborted = abort_file >= 0 && ::write(kept, "1", 1) == 1;
    if (!is_aborted && device != Device{} && device_at(mount_point) == device) {
        ::umount2(mount_point, MNT_FORCE | UMOUNT_NOFOLLOW);
    }
    ::_exit(0);
}

}  // namespace

Result<Descriptor> open_abort_file(const std::string& device) {
    const std::string connection = device.substr(device.find(':') + 1);
    const std::string path = "/sys/fs/fuse/connections/" + connection + "/abort";
    Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    if (file.get() < 0) return fail_errno(errno);
    return file;
}

Result<pid_t> guard_connection(const std::string& mount_point, Result<Descriptor> abort_file,
                               std::span<char> command_line) {
    if (!abort_file && ::geteuid() != 0) return fail(abort_file.error());
    const pid_t guarded = ::getpid();
    const int file = abort_file ? abort_file->get() : -1;
    const Device device = device_at(mount_point.c_str());
    const pid_t started = ::_Fork();
    if (started < 0) return fail_errno(errno);
    if (started == 0) guard(guarded, file, mount_point.c_str(), device, command_line);
    return started;
}

void end_guard(pid_t guard) noexcept {
    ::kill(guard, SIGKILL);
    while (::waitpid(guard, nullptr, 0) < 0 && errno == EINTR) {
    }
}

}  // namespace ros2s::fuse
