#include "running.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "ros2s/base/process_end.h"
#include "ros2s/base/trusted_file.h"

namespace ros2s::cli {
namespace {

constexpr size_t record_bytes_max = 16 * 1024;
// Above the descriptors that a child gets as standard streams.
constexpr int descriptor_least = 10;

struct flock whole_file() {
    struct flock lock{};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    return lock;
}

std::unexpected<Error> failed(std::string_view do_what, const std::string& path, int cause,
                              Report& report) {
    return report.fail(fail_errno(cause).error(), "cannot {} {}: {}", do_what, path,
                       std::strerror(cause));
}

template <class T>
void read_number(std::string_view text, T& number) {
    std::from_chars(text.data(), text.data() + text.size(), number);
}

}  // namespace

std::string encode_running(const Running& running) {
    std::string text = fmt::format("pid: {}\nsince: {}\n", running.pid, running.since);
    for (const auto& address : running.addresses) text += fmt::format("address: {}\n", address);
    return text;
}

Running decode_running(std::string_view text) {
    Running running;
    while (!text.empty()) {
        const auto line = text.substr(0, text.find('\n'));
        text.remove_prefix(std::min(line.size() + 1, text.size()));
        const auto colon = line.find(": ");
        if (colon == line.npos) continue;
        const auto key = line.substr(0, colon);
        const auto value = line.substr(colon + 2);
        if (key == "pid") read_number(value, running.pid);
        if (key == "since") read_number(value, running.since);
        if (key == "address") running.addresses.emplace_back(value);
    }
    return running;
}

Result<Running> find_running(const std::string& path, Report& report) {
    Report why;
    const auto file = open_trusted(path, O_RDONLY, why);
    if (!file) {
        if (file.error().code == Code::not_found) return Running{};
        return report.fail(file.error(), why.text());
    }
    struct flock lock = whole_file();
    if (::fcntl(file->get(), F_OFD_GETLK, &lock) != 0) {
        return failed("query the lock on", path, errno, report);
    }
    std::array<char, record_bytes_max> text;
    const ssize_t size = ::pread(file->get(), text.data(), text.size(), 0);
    Running found = decode_running({text.data(), size > 0 ? static_cast<size_t>(size) : 0});
    if (lock.l_type == F_UNLCK) return Running{.ended = found.pid};
    if (found.pid <= 0) found.pid = -1;
    return found;
}

Result<RunLock> RunLock::take(const std::string& path, Report& report) {
    ROS2S_TRY_ASSIGN(const Descriptor opened,
                     open_trusted(path, O_RDWR | O_CREAT | O_NOFOLLOW, report));
    Descriptor file(::fcntl(opened.get(), F_DUPFD_CLOEXEC, descriptor_least));
    if (file.get() < 0) return failed("open", path, errno, report);
    struct flock lock = whole_file();
    if (::fcntl(file.get(), F_OFD_SETLK, &lock) != 0) {
        if (errno == EAGAIN || errno == EACCES) return fail(Code::busy);
        return failed("lock", path, errno, report);
    }
    // Removes the record of the previous process.
    if (::ftruncate(file.get(), 0) != 0) return failed("write", path, errno, report);
    return RunLock(std::move(file));
}

Result<> RunLock::write(const Running& running) const {
    const std::string text = encode_running(running);
    if (::ftruncate(descriptor_.get(), 0) != 0) return fail_errno(errno);
    const ssize_t written = ::pwrite(descriptor_.get(), text.data(), text.size(), 0);
    if (written == static_cast<ssize_t>(text.size())) return {};
    return fail_errno(written < 0 ? errno : ENOSPC);
}

Result<LockHolder> LockHolder::find(const std::string& path, Report& report) {
    ROS2S_TRY_ASSIGN(const Running running, find_running(path, report));
    if (running.pid == 0) return fail(Code::not_found);
    if (running.pid < 0) return fail(Code::busy);
    // By number: the C library has these calls only since 2.36.
    Descriptor process(static_cast<int>(::syscall(SYS_pidfd_open, running.pid, 0U)));
    if (process.get() < 0) {
        if (errno == ESRCH) return fail(Code::not_found);
        return failed("find the process that is named in", path, errno, report);
    }
    LockHolder holder(path, running.pid, std::move(process));
    // The process still has the lock, so it had the number when the descriptor was made.
    ROS2S_TRY_ASSIGN(const Running still, find_running(path, report));
    if (still.pid != running.pid || still.since != running.since) return fail(Code::not_found);
    return holder;
}

Result<> LockHolder::signal(int number) const {
    if (::syscall(SYS_pidfd_send_signal, descriptor_.get(), number, nullptr, 0U) == 0) return {};
    return errno == ESRCH ? fail(Code::not_found) : fail_errno(errno);
}

bool LockHolder::is_process_gone() const {
    pollfd end{.fd = descriptor_.get(), .events = POLLIN, .revents = 0};
    return ::poll(&end, 1, 0) > 0;
}

bool LockHolder::is_ending() const {
    // In this order: while the process exists, the number is its own.
    return ros2s::is_ending(pid_) || is_process_gone();
}

bool LockHolder::has_ended() const {
    if (!is_process_gone()) return false;
    Report ignored;
    const auto running = find_running(path_, ignored);
    return running && running->pid == 0;
}

}  // namespace ros2s::cli
