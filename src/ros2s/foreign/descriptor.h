// A file descriptor that closes itself, and errno as a Result.
#pragma once
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>

#include "ros2s/base/result.h"

namespace ros2s::foreign {

class Descriptor {
  public:
    Descriptor() = default;
    explicit Descriptor(int fd) : fd_(fd) {}
    Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    Descriptor& operator=(Descriptor&& other) noexcept {
        std::swap(fd_, other.fd_);
        return *this;
    }
    ~Descriptor() {
        if (fd_ >= 0) ::close(fd_);
    }
    [[nodiscard]] int get() const { return fd_; }
    // The caller closes it.
    [[nodiscard]] int release() { return std::exchange(fd_, -1); }

  private:
    int fd_ = -1;
};

// For calls that return -1 and errno.
[[nodiscard]] inline Result<> checked(long result) {
    if (result < 0) return fail_errno(errno);
    return {};
}
[[nodiscard]] inline Result<Descriptor> opened(int fd) {
    if (fd < 0) return fail_errno(errno);
    return Descriptor(fd);
}
// The path of an O_PATH descriptor's file, for calls that take no such descriptor. Never use it for
// a symbolic link: these calls would follow it.
[[nodiscard]] inline std::string proc_path(int fd) { return "/proc/self/fd/" + std::to_string(fd); }

}  // namespace ros2s::foreign
