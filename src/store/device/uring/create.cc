#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>

#include "locked_file.h"
#include "ros2s/base/check.h"
#include "ros2s/base/durable_file.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/process_limits.h"

namespace ros2s::device {
namespace {

constexpr uint64_t chunk_bytes = uint64_t{1} << 20;
constexpr size_t chunks_in_flight = 8;
constexpr const char* provisional = ".new";

std::unexpected<Error> failed(const std::string& path, std::string_view doing, int error,
                              Report& report) {
    const Error code = fail_errno(error).error();
    return report.fail(code, "{}: cannot make the device file: {} failed: {}", path, doing,
                       describe(code));
}

Result<> check_free_space(const std::string& directory, uint64_t size, Report& report) {
    struct statvfs status{};
    if (::statvfs(directory.c_str(), &status) != 0) {
        return failed(directory, "reading its free space", errno, report);
    }
    const uint64_t available = uint64_t{status.f_bavail} * status.f_frsize;
    if (available < size) {
        return report.fail(Code::no_space,
                           "{}: needs {} of free space, has {}; free some, choose another "
                           "directory, or a smaller size",
                           directory, describe_size(size), describe_size(available));
    }
    return {};
}

// The state that the chunks of a file being written share.
struct Filling {
    Ring& ring;
    int fd;
    uint64_t size;
    Bytes pattern;
    uint64_t written = 0;
    Result<> result{};
};

Task<> write_chunk(Filling& filling, uint64_t offset) {
    const auto length = std::min(chunk_bytes, filling.size - offset);
    for (uint64_t done = 0; done < length && filling.result;) {
        const auto moved = co_await filling.ring.write(
            filling.fd, filling.pattern.subspan(done, length - done), offset + done);
        if (!moved) {
            filling.result = fail(moved.error());
        } else if (*moved < block_bytes) {
            filling.result = fail_errno(EIO);
        } else {
            done += round_down<uint64_t>(*moved, block_bytes);
        }
    }
    filling.written += length;
}

Task<Result<>> fill(Reactor& reactor, int fd, uint64_t size, Progress progress, StopToken stop) {
    // A random pattern: storage that recognises zeros would leave them unwritten.
    AlignedBuffer pattern(chunk_bytes);
    for (size_t i = 0; i < chunk_bytes; i += 8) {
        const uint64_t word = reactor.random().next();
        std::memcpy(pattern.data() + i, &word, sizeof word);
    }
    Filling filling{.ring = *reactor.ring(), .fd = fd, .size = size, .pattern = pattern.bytes()};
    Nursery nursery(reactor, chunks_in_flight);
    for (uint64_t offset = 0; offset < size && filling.result; offset += chunk_bytes) {
        if (stop.stop_requested()) filling.result = fail(Code::cancelled);
        if (filling.result) co_await nursery.spawn(write_chunk(filling, offset));
        if (progress) progress(std::min(filling.written, size), size);
    }
    co_await nursery.join();
    if (filling.result && progress) progress(size, size);
    co_return filling.result;
}

// Fills the locked, provisional file and gives it its name.
Task<Result<>> build(Reactor& reactor, int fd, std::string path, uint64_t size, Progress progress,
                     StopToken stop, Report& report) {
    // Removes a killed process's data, which would use the space that is checked next.
    if (::ftruncate(fd, 0) != 0) co_return failed(path, "emptying", errno, report);
    ROS2S_CO_TRY(check_free_space(parent_of(path), size, report));
    // Reserves contiguous space if the file system can. The writes turn it into written extents.
    if (::fallocate(fd, 0, 0, static_cast<off_t>(size)) != 0 && errno != EOPNOTSUPP &&
        errno != ENOSYS) {
        co_return failed(path, "reserving " + describe_size(size), errno, report);
    }
    if (const auto filled = co_await fill(reactor, fd, size, std::move(progress), stop); !filled) {
        if (filled.error().code == Code::cancelled) {
            co_return report.fail(Code::cancelled, path + ": its creation was stopped");
        }
        co_return report.fail(filled.error(), "{}: writing it failed: {}", path,
                              describe(filled.error()));
    }
    // The ring executes the flush of the data, which may take long. Then only metadata is left.
    if (const auto flushed = co_await reactor.ring()->fdatasync(fd); !flushed) {
        co_return failed(path, "fdatasync", flushed.error().os_errno, report);
    }
    if (::fsync(fd) != 0) co_return failed(path, "fsync", errno, report);
    // link() and not rename(), which would silently replace a file that appeared meanwhile.
    if (::link((path + provisional).c_str(), path.c_str()) != 0) {
        if (errno == EEXIST) co_return report.fail(Code::exists, path + ": exists already");
        co_return failed(path, "naming the new file", errno, report);
    }
    co_return Result<>{};
}

}  // namespace

Task<Result<>> create_file_device(Reactor& reactor, std::string path, uint64_t size,
                                  FileDeviceOptions options, Progress progress, StopToken stop,
                                  Report& report) {
    ROS2S_CHECK(reactor.ring() != nullptr && size > 0 && size % block_bytes == 0);
    const std::string directory = parent_of(path);
    struct stat named{};
    if (::stat(directory.c_str(), &named) != 0) {
        co_return failed(directory, "looking at the directory", errno, report);
    }
    if (::lstat(path.c_str(), &named) == 0) {
        co_return report.fail(Code::exists,
                              "{} exists already, and may be a device of a pool; use another path, "
                              "or remove the file to make a new one",
                              path);
    }
    ROS2S_CO_TRY(check_file_bytes(path, size, report));
    const std::string unfinished = path + provisional;
    ROS2S_CO_TRY_ASSIGN(const auto file,
                        co_await LockedFile::open(reactor, unfinished, O_CREAT, options, report));
    // Another creator may have just finished and released the lock. Then our descriptor is its
    // finished file, which the provisional name does not name any more.
    struct stat locked{};
    if (::fstat(file.fd(), &locked) != 0 || ::stat(unfinished.c_str(), &named) != 0 ||
        locked.st_ino != named.st_ino) {
        co_return report.fail(Code::busy, path + ": another process is creating it; try again");
    }
    const auto built =
        co_await build(reactor, file.fd(), path, size, std::move(progress), stop, report);
    // Before the lock is released, see above.
    if (::unlink(unfinished.c_str()) != 0 && built) {
        co_return failed(unfinished, "removing its provisional name", errno, report);
    }
    if (!built) co_return built;
    if (const auto synced = sync_directory(directory); !synced) {
        co_return failed(directory, "making the new name durable", synced.error().os_errno, report);
    }
    co_return Result<>{};
}

}  // namespace ros2s::device
