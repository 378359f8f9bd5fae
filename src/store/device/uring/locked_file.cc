#include "locked_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "ros2s/runtime/fork.h"

namespace ros2s::device {
namespace {

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
            return report.fail(
                code, "{}: user {} may not read and write it; run as its owner, or change its mode",
                path, geteuid());
        case EROFS:
            return report.fail(code, path +
                                         ": its file system is mounted read-only; remount it "
                                         "with: mount -o remount,rw");
        case EINVAL:
            if (!direct) break;
            return report.fail(Code::unsupported,
                               path +
                                   ": its file system refuses O_DIRECT; use ext4 or XFS, or select "
                                   "buffered I/O by name");
        default: break;
    }
    return report.fail(code, "{}: cannot open it ({})", path, describe(code));
}

}  // namespace

Result<LockedFile> LockedFile::open_unlocked(const std::string& path, int flags,
                                             FileDeviceOptions options, Report& report) {
    const int direct = options.buffered ? 0 : O_DIRECT;
    // O_NONBLOCK, so that a named pipe at this path is refused below and does not block.
    const int access = options.read_only ? O_RDONLY : O_RDWR;
    const int fd = ::open(path.c_str(), access | O_CLOEXEC | O_NONBLOCK | direct | flags, 0600);
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
    // io_uring returns EAGAIN for descriptors with O_NONBLOCK: for writes on a DAX file system, for
    // example.
    if (::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) & ~O_NONBLOCK) != 0) {
        return open_failed(path, errno, false, report);
    }
    return file;
}

Task<Result<LockedFile>> LockedFile::open(Reactor& reactor, std::string path, int flags,
                                          FileDeviceOptions options, Report& report) {
    ROS2S_CO_TRY_ASSIGN(auto file, open_unlocked(path, flags, options, report));
    ROS2S_CO_TRY(co_await lock(reactor, file.fd(), path,
                               options.read_only ? Sharing::readers : Sharing::none, report));
    co_return file;
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
