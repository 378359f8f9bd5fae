#include "locked_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <optional>

#include "ros2s/runtime/fork.h"

namespace ros2s::device {
namespace {

// How long the operations of a killed owner may take to land.
constexpr Duration dead_owner_wait = std::chrono::seconds(2);

std::unexpected<Error> open_failed(const std::string& path, int error, bool direct,
                                   Report& report) {
    const Error code = fail_errno(error).error();
    switch (error) {
        case ENOENT:
            return report.fail(code, path +
                                         ": no such file or directory; check the path, or make a "
                                         "pool with: ros2store up DIR");
        case EACCES:
        case EPERM:
            return report.fail(code, fmt::format("{}: user {} may not read and write it; run as "
                                                 "its owner, or change its mode",
                                                 path, geteuid()));
        case EROFS:
            return report.fail(code, path +
                                         ": its file system is mounted read-only; remount it "
                                         "with: mount -o remount,rw");
        case EINVAL:
            if (!direct) break;
            return report.fail(Code::unsupported,
                               path +
                                   ": its file system refuses O_DIRECT; use ext4 or XFS, or ask "
                                   "for buffered I/O by name");
        default: break;
    }
    return report.fail(code, fmt::format("{}: cannot open it ({})", path, describe(code)));
}

// A killed process leaves operations in the kernel that keep its files, and with them its locks,
// until they land; /proc/locks goes on naming it. It is also dead while its parent has not asked.
bool is_dead(pid_t pid) {
    if (::kill(pid, 0) != 0) return errno == ESRCH;
    // "4711 (a name) Z …": the name may hold anything but ends with the last ')'.
    std::ifstream status(fmt::format("/proc/{}/stat", pid));
    std::string line;
    std::getline(status, line);
    const size_t name_end = line.rfind(") ");
    return name_end != std::string::npos &&
           (line[name_end + 2] == 'Z' || line[name_end + 2] == 'X');
}

// The process that holds the lock on this file; nothing where /proc does not tell, or where that
// process is dead.
std::optional<pid_t> lock_owner(int fd) {
    struct stat status{};
    if (::fstat(fd, &status) != 0) return {};
    const std::string file = fmt::format(" {:02x}:{:02x}:{} ", major(status.st_dev),
                                         minor(status.st_dev), status.st_ino);
    // Lines like "4: FLOCK  ADVISORY  WRITE 4711 fe:01:1234 0 EOF"; "->" marks those who wait.
    std::ifstream locks("/proc/locks");
    std::string line;
    while (std::getline(locks, line)) {
        const size_t at = line.find(file);
        if (at == std::string::npos || line.find("FLOCK") == std::string::npos ||
            line.find("->") != std::string::npos) {
            continue;
        }
        const pid_t pid = std::atoi(line.c_str() + line.rfind(' ', at - 1) + 1);
        if (pid > 0 && !is_dead(pid)) return pid;
    }
    return {};
}

std::string describe_owner(std::optional<pid_t> pid) {
    if (!pid) return "another process (/proc/locks does not name it)";
    if (*pid == getpid()) return fmt::format("this process ({})", *pid);
    std::string program;
    std::ifstream comm(fmt::format("/proc/{}/comm", *pid));
    std::getline(comm, program);
    return fmt::format("process {}{}", *pid, program.empty() ? "" : " (" + program + ")");
}

}  // namespace

Result<LockedFile> LockedFile::open_unlocked(const std::string& path, int flags,
                                             FileDeviceOptions options, Report& report) {
    const int direct = options.buffered ? 0 : O_DIRECT;
    // O_NONBLOCK, so that a named pipe in this place is refused below and does not block.
    const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | direct | flags, 0600);
    if (fd < 0) {
        if (errno == EISDIR) {
            return report.fail(Code::is_directory, path + ": is a directory, a file was needed");
        }
        return open_failed(path, errno, direct != 0, report);
    }
    close_in_forked_child(fd);
    LockedFile file(fd);
    struct stat status{};
    if (::fstat(fd, &status) != 0) return open_failed(path, errno, false, report);
    if (!S_ISREG(status.st_mode)) {
        return report.fail(Code::invalid, path + ": is not a regular file");
    }
    return file;
}

Task<Result<LockedFile>> LockedFile::open(Reactor& reactor, std::string path, int flags,
                                          FileDeviceOptions options, Report& report) {
    ROS2S_CO_TRY_ASSIGN(auto file, open_unlocked(path, flags, options, report));
    const Time give_up = reactor.now() + dead_owner_wait;
    while (::flock(file.fd(), LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK) co_return open_failed(path, errno, false, report);
        const auto owner = lock_owner(file.fd());
        if (owner || reactor.now() >= give_up) {
            co_return report.fail(
                Code::busy, fmt::format("{}: in use by {}; a pool has one owner at a time: end "
                                        "that process (unmount what it mounts), or work through it",
                                        path, describe_owner(owner)));
        }
        co_await sleep_for(reactor, std::chrono::milliseconds(5));
    }
    co_return file;
}

void LockedFile::release(int fd) noexcept {
    if (fd < 0) return;
    ::flock(fd, LOCK_UN);
    close_everywhere(fd);
}

std::string describe_size(uint64_t bytes) {
    constexpr std::array units{"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    auto value = static_cast<double>(bytes);
    size_t unit = 0;
    while (value >= 1024 && unit + 1 < units.size()) {
        value /= 1024;
        ++unit;
    }
    return fmt::format("{:.3g} {}", value, units[unit]);
}

}  // namespace ros2s::device
