// Connections begin with a socket, before data moves by other means. Everything here is
// non-blocking and waits on the reactor's Ring, with a deadline and a stop token.
//
// Addresses: a path (it contains a slash) or "@name" (abstract) is a Unix socket; "HOST:PORT" and
// "[V6]:PORT" are TCP. HOST is a number: the composing code resolves names.
#pragma once
#include <string>
#include <vector>

#include "ros2s/base/bytes.h"
#include "ros2s/base/result.h"
#include "ros2s/fabric/deadline.h"
#include "ros2s/fabric/endpoint.h"
#include "ros2s/runtime/reactor.h"

namespace ros2s::fabric {

// A descriptor that is closed with its owner, and in every forked child.
class Descriptor {
  public:
    Descriptor() = default;
    explicit Descriptor(int fd) noexcept;
    Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    Descriptor& operator=(Descriptor&& other) noexcept {
        if (this != &other) {
            reset();
            fd_ = std::exchange(other.fd_, -1);
        }
        return *this;
    }
    ~Descriptor() { reset(); }
    void reset() noexcept;
    [[nodiscard]] int get() const noexcept { return fd_; }
    [[nodiscard]] bool open() const noexcept { return fd_ >= 0; }

  private:
    int fd_ = -1;
};

// Errors of all functions: cancelled (the token fired), disconnected (the peer hung up), io.
Task<Result<>> send_all(Reactor& reactor, int fd, ConstBytes bytes, StopToken stop);
// Sends descriptors with the first byte.
Task<Result<>> send_descriptors(Reactor& reactor, int fd, ConstBytes bytes,
                                const std::vector<int>& descriptors, StopToken stop);
// Sends one byte and a descriptor, without waiting. False: nothing was sent.
[[nodiscard]] bool send_descriptor_now(int fd, std::byte byte, int descriptor) noexcept;
// Sends a message and a descriptor on a socket of messages. Waits as long as the socket does.
// False: nothing was sent; see errno.
[[nodiscard]] bool send_message(int fd, ConstBytes message, int descriptor) noexcept;
Task<Result<>> receive_all(Reactor& reactor, int fd, Bytes into, StopToken stop);
// As recvmsg(2), without waiting, with up to `most` descriptors. EMFILE: what was received came
// with a descriptor for which this process has no room.
[[nodiscard]] ssize_t receive_message(int fd, Bytes into, std::vector<Descriptor>& descriptors,
                                      size_t most) noexcept;
// Receives up to `most` descriptors with the bytes; more than that is an error (corrupt).
Task<Result<>> receive_descriptors(Reactor& reactor, int fd, Bytes into,
                                   std::vector<Descriptor>& descriptors, size_t most,
                                   StopToken stop);

[[nodiscard]] inline bool is_unix_address(const std::string& address) noexcept {
    return address.starts_with('@') || address.contains('/');
}
// Errors: invalid (no such address), busy (in use), denied, io. Replaces a socket file without a
// listener. `address` becomes the actual one, with the port that the kernel chose.
[[nodiscard]] Result<Descriptor> listen_on(std::string& address, Report& report);
// The same, but waits a moment for an address that is in use: a killed process leaves operations in
// the kernel that keep its sockets until they end.
Task<Result<Descriptor>> listen_when_free(Reactor& reactor, std::string& address, Report& report);
// The next connection of a listening socket, non-blocking. While descriptors or memory are missing,
// it waits, and the backlog keeps the connections. Errors: cancelled.
Task<Result<Descriptor>> accept_from(Reactor& reactor, int listening, StopToken stop);
// The other end, as the kernel describes it: "process 4711 of user 1000 (shm)", "192.0.2.7 port
// 4711 (ucx+tcp)".
[[nodiscard]] Peer peer_at(int fd, const std::string& provider);
// For a connection whose peer may be silent for long: a machine that died shows within ten seconds,
// because the kernel probes it.
void keep_alive(int fd) noexcept;
// Removes the socket file of a listener's path.
void remove_socket_file(const std::string& address) noexcept;
// Errors: invalid, disconnected (no listener), deadline, cancelled, denied, io.
Task<Result<Descriptor>> connect_to(Reactor& reactor, std::string address, StopToken stop,
                                    Report& report);

}  // namespace ros2s::fabric
