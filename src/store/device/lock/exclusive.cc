#include "ros2s/device/lock/exclusive.h"

#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <optional>

#include "ros2s/runtime/fork.h"

namespace ros2s::device {
namespace {

// The time for a killed owner's operations to end.
constexpr Duration dead_owner_wait = std::chrono::seconds(2);

// A killed process leaves operations in the kernel that keep its files open, and so its locks,
// until they end. /proc/locks still names it. A process is also dead while its parent has not
// waited for it.
bool is_dead(pid_t pid) {
    if (::kill(pid, 0) != 0) return errno == ESRCH;
    // "4711 (a name) Z …": the name may contain any character, but ends with the last ')'.
    std::ifstream status(fmt::format("/proc/{}/stat", pid));
    std::string line;
    std::getline(status, line);
    const size_t name_end = line.rfind(") ");
    return name_end != std::string::npos &&
           (line[name_end + 2] == 'Z' || line[name_end + 2] == 'X');
}

// The process that holds the lock on this file; nothing if /proc does not name it, or if that
// process is dead.
std::optional<pid_t> lock_owner(int fd) {
    struct stat status{};
    if (::fstat(fd, &status) != 0) return {};
    const std::string file = fmt::format(" {:02x}:{:02x}:{} ", major(status.st_dev),
                                         minor(status.st_dev), status.st_ino);
    // Lines like "4: FLOCK  ADVISORY  WRITE 4711 fe:01:1234 0 EOF"; "->" marks waiting processes.
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

Task<Result<>> lock_exclusively(Reactor& reactor, int fd, std::string path, Report& report) {
    return lock(reactor, fd, std::move(path), Sharing::none, report);
}

Task<Result<>> lock(Reactor& reactor, int fd, std::string path, Sharing sharing, Report& report) {
    const int kind = sharing == Sharing::none ? LOCK_EX : LOCK_SH;
    const Time give_up = reactor.now() + dead_owner_wait;
    while (::flock(fd, kind | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK) {
            const Error error = fail_errno(errno).error();
            co_return report.fail(error, "{}: cannot lock it ({})", path, describe(error));
        }
        const auto owner = lock_owner(fd);
        if (owner || reactor.now() >= give_up) {
            co_return report.fail(Code::busy,
                                  "{}: in use by {}; a pool has one owner at a time: end that "
                                  "process (unmount what it mounts), or work through it",
                                  path, describe_owner(owner));
        }
        co_await sleep_for(reactor, std::chrono::milliseconds(5));
    }
    co_return Result<>{};
}

void unlock_and_close(int fd) noexcept {
    if (fd < 0) return;
    ::flock(fd, LOCK_UN);
    close_everywhere(fd);
}

}  // namespace ros2s::device
