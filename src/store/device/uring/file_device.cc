#include "ros2s/device/uring/file_device.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "locked_file.h"
#include "ros2s/base/check.h"
#include "ros2s/runtime/fork.h"
#include "ros2s/runtime/process_limits.h"
#include "write_cache.h"

namespace ros2s::device {
namespace {

// One operation of the ring moves at most this; the kernel's limit is just under 2 GiB.
constexpr uint64_t transfer_bytes_max = uint64_t{64} << 20;
// In tmpfs and to the page cache a transfer of at most this is a system call: some ten microseconds
// of copying.
constexpr uint64_t copied_bytes_max = uint64_t{64} << 10;
// The kernel makes those wait who write much into the page cache, and this is the core's thread.
// After a copy that took this long the ring writes, so that waits take a tenth of the time at most.
constexpr Duration copy_waited = std::chrono::milliseconds(1);
constexpr int pause_after_wait = 10;
// A transfer that stops short of a whole block this often in a row has failed.
constexpr int short_transfers_max = 8;

bool is_in_memory(int fd) {
    struct statfs status{};
    return ::fstatfs(fd, &status) == 0 &&
           (status.f_type == TMPFS_MAGIC || status.f_type == static_cast<long>(RAMFS_MAGIC));
}

}  // namespace

Task<Result<std::unique_ptr<BlockDevice>>> FileDevice::open(Reactor& reactor, std::string path,
                                                            FileDeviceOptions options,
                                                            Report& report) {
    ROS2S_CHECK(reactor.ring() != nullptr);
    ROS2S_CO_TRY_ASSIGN(auto file, co_await LockedFile::open(reactor, path, 0, options, report));
    struct stat status{};
    if (::fstat(file.fd(), &status) != 0) co_return fail_errno(errno);
    const auto size = static_cast<uint64_t>(status.st_size);
    if (size == 0 || size % block_bytes != 0) {
        co_return report.fail(Code::corrupt,
                              "{}: has {} bytes, not a positive multiple of {}: it was truncated, "
                              "or is not a device of a pool",
                              path, size, block_bytes);
    }
    if (!options.read_only) ROS2S_CO_TRY(check_file_bytes(path, size, report));
    const int fd = file.take();
    // tmpfs accepts O_DIRECT and ignores it.
    const Medium medium = is_in_memory(fd)   ? Medium::memory
                          : options.buffered ? Medium::page_cache
                                             : Medium::direct;
    co_return std::unique_ptr<BlockDevice>(new FileDevice(reactor, fd, true, std::move(path), size,
                                                          medium, has_write_cache(status.st_dev)));
}

Result<std::unique_ptr<BlockDevice>> FileDevice::handle_on(Reactor& reactor) {
    ROS2S_CHECK(fd_ >= 0 && reactor.ring() != nullptr);
    const int fd = ::fcntl(fd_, F_DUPFD_CLOEXEC, 0);
    if (fd < 0) return fail_errno(errno);
    close_in_forked_child(fd);
    return std::unique_ptr<BlockDevice>(
        new FileDevice(reactor, fd, false, path_, size_, medium_, has_write_cache_));
}

FileDevice::~FileDevice() { ROS2S_CHECK(fd_ < 0); }

std::string FileDevice::path() const {
    const std::string ring{to_string(ring_.kind())};
    switch (medium_) {
        case Medium::direct: return ring + ", O_DIRECT";
        case Medium::page_cache: return ring + ", page cache (O_DIRECT was declined by option)";
        case Medium::memory: return ring + ", memory (tmpfs: lost at reboot)";
    }
    std::unreachable();
}

// The ring has no way to read tmpfs without a thread of the kernel, whose wake-up and end cost
// several times as much as the copy.
Result<size_t> FileDevice::copy(Ring::Opcode opcode, uint64_t offset, std::byte* address,
                                uint64_t length) const noexcept {
    while (true) {
        const auto at = static_cast<off_t>(offset);
        const ssize_t moved = opcode == Ring::Opcode::read ? ::pread(fd_, address, length, at)
                                                           : ::pwrite(fd_, address, length, at);
        if (moved >= 0) return static_cast<size_t>(moved);
        if (errno != EINTR) return fail_errno(errno);
    }
}

Task<Result<>> FileDevice::transfer(Ring::Opcode opcode, uint64_t offset, std::byte* address,
                                    uint64_t length) {
    began();
    int short_transfers = 0;
    while (length > 0) {
        const uint64_t part = std::min(length, transfer_bytes_max);
        const bool copies = medium_ == Medium::memory && part <= copied_bytes_max;
        const auto moved = copies ? copy(opcode, offset, address, part)
                                  : co_await ring_.transfer({.opcode = opcode,
                                                             .fd = fd_,
                                                             .address = address,
                                                             .length = static_cast<uint32_t>(part),
                                                             .offset = offset});
        if (!moved) co_return ended(fail(Error{Code::io, moved.error().os_errno, 0}));
        // The next attempt moves a partly moved block again: O_DIRECT needs whole ones.
        const uint64_t whole = round_down<uint64_t>(*moved, block_bytes);
        if (whole == part) {
            short_transfers = 0;
        } else if (*moved == 0 || ++short_transfers > short_transfers_max) {
            // At the end of the file: it was truncated while it was open.
            co_return ended(fail(Error{Code::io, ENXIO, 0}));
        }
        offset += whole;
        address += whole;
        length -= whole;
    }
    co_return ended({});
}

Task<Result<>> FileDevice::read(uint64_t offset, Bytes into) {
    count_read(offset, into.size());
    ROS2S_CHECK(reinterpret_cast<uintptr_t>(into.data()) % block_bytes == 0);
    return transfer(Ring::Opcode::read, offset, into.data(), into.size());
}

Task<Result<>> FileDevice::write(uint64_t offset, ConstBytes from) {
    count_write(offset, from.size());
    ROS2S_CHECK(reinterpret_cast<uintptr_t>(from.data()) % block_bytes == 0);
    // The ring has one kind of address; a write only reads from it.
    return transfer(Ring::Opcode::write, offset, const_cast<std::byte*>(from.data()), from.size());
}

Task<Result<>> FileDevice::write_cached(uint64_t offset, ConstBytes from) {
    if (copy_to_cache(offset, from)) co_return Result<>{};
    co_return co_await write(offset, from);
}

bool FileDevice::copy_to_cache(uint64_t offset, ConstBytes from) {
    const Time began = reactor_.now();
    if (medium_ == Medium::memory || from.size() > copied_bytes_max || began < uses_cache_again_) {
        return false;
    }
    const int fd = cached_fd();
    if (fd < 0) return false;
    count_cached_write(offset, from.size());
    has_cached_ = true;
    const ssize_t moved = ::pwrite(fd, from.data(), from.size(), static_cast<off_t>(offset));
    const Time ended = reactor_.now();
    if (ended - began > copy_waited) uses_cache_again_ = ended + pause_after_wait * (ended - began);
    return moved == static_cast<ssize_t>(from.size());
}

// O_DIRECT belongs to an open file, so another one is needed. Both have the same page cache, also
// for flushes and their errors.
int FileDevice::cached_fd() noexcept {
    if (medium_ == Medium::page_cache) return fd_;
    if (cached_fd_ < 0) {
        // Once, if this user may not open it again.
        uses_cache_again_ = Time::max();
        cached_fd_ = ::open(fmt::format("/proc/self/fd/{}", fd_).c_str(), O_WRONLY | O_CLOEXEC);
        if (cached_fd_ < 0) return -1;
        close_in_forked_child(cached_fd_);
        uses_cache_again_ = {};
    }
    return cached_fd_;
}

Task<Result<>> FileDevice::flush() {
    count_flush();
    if (medium_ == Medium::memory) co_return Result<>{};
    began();
    const bool has_cached = std::exchange(has_cached_, false);
    const bool is_short = medium_ == Medium::direct && !has_write_cache_ && !has_cached;
    const auto flushed = co_await ring_.fdatasync(fd_, is_short);
    if (!flushed) co_return ended(fail(Error{Code::io, flushed.error().os_errno, 0}));
    co_return ended({});
}

Task<Result<>> FileDevice::discard(uint64_t offset, uint64_t length) {
    count_discard(offset, length);
    co_return Result<>{};
}

Task<> FileDevice::close() {
    co_await all_ended();
    if (cached_fd_ >= 0) close_everywhere(std::exchange(cached_fd_, -1));
    if (is_first_) {
        unlock_and_close(fd_);
    } else {
        close_everywhere(fd_);
    }
    fd_ = -1;
}

}  // namespace ros2s::device
