// A file descriptor that is closed when its object ends.
#pragma once
#include <unistd.h>

#include <utility>

namespace ros2s {

class Descriptor {
  public:
    Descriptor() = default;
    // As a system call returns it: a negative number is none.
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

}  // namespace ros2s
