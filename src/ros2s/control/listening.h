// Sockets that the control plane listens on: HOST:PORT, [IPv6]:PORT, unix:PATH. All calls block.
#pragma once
#include <string>
#include <vector>

#include "ros2s/base/result.h"

namespace ros2s::control {

inline constexpr std::string_view unix_scheme = "unix:";

// A file descriptor of a socket.
class Socket {
  public:
    explicit Socket(int fd) : fd_(fd) {}
    Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    Socket& operator=(Socket&& other) noexcept {
        std::swap(fd_, other.fd_);
        return *this;
    }
    Socket(const Socket&) = delete;
    Socket& operator=(const Socket&) = delete;
    ~Socket();
    [[nodiscard]] int get() const { return fd_; }
    [[nodiscard]] int release() { return std::exchange(fd_, -1); }

  private:
    int fd_;
};

struct Listening {
    std::string address;          // as requested, with the actual port in place of 0
    std::vector<Socket> sockets;  // one for each of the name's addresses that was available
};

// Checks what open_listening() would refuse now. Leaves nothing behind.
[[nodiscard]] Result<> check_listening(const std::string& address, Report& report);
// Non-blocking sockets. Replaces a socket file that an earlier process left. Errors, each with a
// sentence: invalid (no address), busy (taken, or not this machine's), denied, not_found.
[[nodiscard]] Result<Listening> open_listening(const std::string& address, Report& report);

}  // namespace ros2s::control
