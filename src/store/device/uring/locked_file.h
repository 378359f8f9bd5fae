// LockedFile: a descriptor with an exclusive lock, for opening and creating.
#pragma once
#include <string>

#include "ros2s/base/result.h"
#include "ros2s/device/lock/exclusive.h"
#include "ros2s/device/uring/file_device.h"

namespace ros2s::device {

class LockedFile {
  public:
    // `flags` beyond O_RDWR, O_CLOEXEC and O_DIRECT: O_CREAT for a file of mode 0600, or 0. If the
    // lock's owner is dead, waits a little for its last operations to end. Errors as
    // FileDevice::open(); the report has what failed, where, and the remedy.
    [[nodiscard]] static Task<Result<LockedFile>> open(Reactor& reactor, std::string path,
                                                       int flags, FileDeviceOptions options,
                                                       Report& report);
    LockedFile(LockedFile&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    LockedFile& operator=(LockedFile&&) = delete;
    ~LockedFile() { unlock_and_close(fd_); }

    [[nodiscard]] int fd() const noexcept { return fd_; }
    // The caller takes over the descriptor and must call unlock_and_close().
    [[nodiscard]] int take() noexcept { return std::exchange(fd_, -1); }

  private:
    // Everything except the lock.
    [[nodiscard]] static Result<LockedFile> open_unlocked(const std::string& path, int flags,
                                                          FileDeviceOptions options,
                                                          Report& report);
    explicit LockedFile(int fd) noexcept : fd_(fd) {}
    int fd_;
};

// "1.5 GiB", "12 KiB"
[[nodiscard]] std::string describe_size(uint64_t bytes);

}  // namespace ros2s::device
