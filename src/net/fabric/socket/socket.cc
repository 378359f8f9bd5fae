#include "ros2s/fabric/socket/socket.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>

#include "ros2s/base/text_parts.h"
#include "ros2s/runtime/fork.h"
#include "ros2s/runtime/ring.h"

namespace ros2s::fabric {
namespace {

constexpr size_t descriptors_most = 8;
// Connections that the kernel keeps until they are accepted: as many as it allows. A flood of them
// uses up this limit before it reaches others.
constexpr int backlog = 4096;

// Returns true if a Unix socket's file belongs to a dead server. It tries to connect. If io_uring
// waits on a killed process's sockets, the kernel may keep them for some milliseconds after its
// end. Then the connection succeeds, and names the former listener.
bool is_left_behind(int probe, const sockaddr* address, socklen_t length) {
    if (connect(probe, address, length) != 0) return errno == ECONNREFUSED;
    ucred listener{};
    socklen_t size = sizeof listener;
    const bool named = getsockopt(probe, SOL_SOCKET, SO_PEERCRED, &listener, &size) == 0;
    return named && listener.pid > 0 && kill(listener.pid, 0) != 0 && errno == ESRCH;
}

struct SocketAddress {
    sockaddr_storage storage{};
    socklen_t length = 0;
    [[nodiscard]] sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
    [[nodiscard]] bool is_unix() const { return storage.ss_family == AF_UNIX; }
};

Result<SocketAddress> parse_unix(const std::string& address, Report& report) {
    SocketAddress parsed;
    auto& path = reinterpret_cast<sockaddr_un&>(parsed.storage);
    if (address.size() >= sizeof path.sun_path) {
        return report.fail(Code::invalid, "the socket path " + address + " is longer than " +
                                              std::to_string(sizeof path.sun_path - 1) +
                                              " characters: choose a shorter one");
    }
    path.sun_family = AF_UNIX;
    std::copy(address.begin(), address.end(), path.sun_path);
    if (address.front() == '@') path.sun_path[0] = '\0';
    parsed.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address.size() +
                                           (address.front() == '@' ? 0 : 1));
    return parsed;
}

Result<SocketAddress> parse(const std::string& address, Report& report) {
    if (is_unix_address(address)) return parse_unix(address, report);
    SocketAddress parsed;
    const size_t colon = address.rfind(':');
    std::string host = address.substr(0, colon);
    uint16_t port = 0;
    if (colon != std::string::npos && parse_number(address.substr(colon + 1), port)) {
        auto& v4 = reinterpret_cast<sockaddr_in&>(parsed.storage);
        auto& v6 = reinterpret_cast<sockaddr_in6&>(parsed.storage);
        if (inet_pton(AF_INET, host.c_str(), &v4.sin_addr) == 1) {
            v4.sin_family = AF_INET;
            v4.sin_port = htons(port);
            parsed.length = sizeof v4;
            return parsed;
        }
        if (host.size() > 2 && host.front() == '[' && host.back() == ']' &&
            inet_pton(AF_INET6, host.substr(1, host.size() - 2).c_str(), &v6.sin6_addr) == 1) {
            v6.sin6_family = AF_INET6;
            v6.sin6_port = htons(port);
            parsed.length = sizeof v6;
            return parsed;
        }
    }
    return report.fail(Code::invalid, "'" + address +
                                          "' is not an address: give IP:PORT, [IPv6]:PORT, a path "
                                          "of a socket with a slash in it, or @NAME");
}

// Waits until the descriptor is ready. Errors: cancelled, io.
Task<Result<>> ready(Reactor& reactor, int fd, uint32_t events, StopToken stop) {
    const auto polled = co_await reactor.ring()->poll(fd, events, stop);
    if (!polled) co_return fail(polled.error());
    co_return Result<>{};
}

std::unexpected<Error> socket_error(int error) {
    // A disconnected peer shows in several ways.
    if (error == EPIPE || error == ECONNRESET || error == ECONNABORTED || error == ENOTCONN) {
        return std::unexpected(Error{Code::disconnected, error, 0});
    }
    return fail_errno(error);
}

}  // namespace

Descriptor::Descriptor(int fd) noexcept : fd_(fd) {
    if (fd_ >= 0) close_in_forked_child(fd_);
}

void Descriptor::reset() noexcept {
    if (fd_ >= 0) close_everywhere(std::exchange(fd_, -1));
}

namespace {

using DescriptorRoom = std::array<char, CMSG_SPACE(sizeof(int) * descriptors_most)>;

void attach(msghdr& message, DescriptorRoom& room, std::span<const int> descriptors) noexcept {
    message.msg_control = room.data();
    message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size_bytes());
}

}  // namespace

namespace {

bool send_with(int fd, ConstBytes bytes, int descriptor, int flags) noexcept {
    alignas(cmsghdr) DescriptorRoom room{};
    iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    attach(message, room, {&descriptor, 1});
    return sendmsg(fd, &message, flags | MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
}

}  // namespace

bool send_descriptor_now(int fd, std::byte byte, int descriptor) noexcept {
    return send_with(fd, {&byte, 1}, descriptor, MSG_DONTWAIT);
}

bool send_message(int fd, ConstBytes message, int descriptor) noexcept {
    return send_with(fd, message, descriptor, 0);
}

Task<Result<>> send_descriptors(Reactor& reactor, int fd, ConstBytes bytes,
                                const std::vector<int>& descriptors, StopToken stop) {
    ROS2S_CHECK(descriptors.size() <= descriptors_most);
    bool first = true;
    while (!bytes.empty()) {
        alignas(cmsghdr) DescriptorRoom room{};
        iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
        msghdr message{};
        message.msg_iov = &part;
        message.msg_iovlen = 1;
        if (first && !descriptors.empty()) attach(message, room, descriptors);
        const ssize_t sent = sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent >= 0) {
            bytes = bytes.subspan(static_cast<size_t>(sent));
            first = false;
        } else if (errno == EAGAIN) {
            ROS2S_CO_TRY(co_await ready(reactor, fd, POLLOUT, stop));
        } else if (errno != EINTR) {
            co_return socket_error(errno);
        }
    }
    co_return Result<>{};
}

Task<Result<>> send_all(Reactor& reactor, int fd, ConstBytes bytes, StopToken stop) {
    const std::vector<int> none;
    co_return co_await send_descriptors(reactor, fd, bytes, none, stop);
}

ssize_t receive_message(int fd, Bytes into, std::vector<Descriptor>& descriptors,
                        size_t most) noexcept {
    alignas(cmsghdr) DescriptorRoom room{};
    iovec part{into.data(), into.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    // Without room for descriptors the kernel closes those that arrive.
    if (most > 0) {
        message.msg_control = room.data();
        message.msg_controllen = room.size();
    }
    const ssize_t got = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < 0 || most == 0) return got;
    for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
         header = CMSG_NXTHDR(&message, header)) {
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
        const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; ++i) {
            int each = -1;
            std::memcpy(&each, CMSG_DATA(header) + i * sizeof(int), sizeof each);
            descriptors.emplace_back(each);
        }
    }
    if ((message.msg_flags & MSG_CTRUNC) != 0 && descriptors.size() < most) {
        errno = EMFILE;
        return -1;
    }
    return got;
}

Task<Result<>> receive_descriptors(Reactor& reactor, int fd, Bytes into,
                                   std::vector<Descriptor>& descriptors, size_t most,
                                   StopToken stop) {
    while (!into.empty()) {
        const ssize_t got = receive_message(fd, into, descriptors, most);
        if (got > 0) {
            into = into.subspan(static_cast<size_t>(got));
            if (descriptors.size() > most) co_return fail(Code::corrupt);
        } else if (got == 0) {
            co_return fail(Code::disconnected);
        } else if (errno == EAGAIN) {
            ROS2S_CO_TRY(co_await ready(reactor, fd, POLLIN, stop));
        } else if (errno != EINTR) {
            co_return socket_error(errno);
        }
    }
    co_return Result<>{};
}

Task<Result<>> receive_all(Reactor& reactor, int fd, Bytes into, StopToken stop) {
    std::vector<Descriptor> none;
    co_return co_await receive_descriptors(reactor, fd, into, none, 0, stop);
}

namespace {

constexpr Duration dead_owner_wait = std::chrono::seconds(1);

// Why the address cannot be used for listening, and what to do.
std::string why_not(const Error& error, const std::string& address) {
    switch (error.os_errno) {
        case EADDRNOTAVAIL:
            return "it is not an address of this machine: choose one that `ip -brief address` "
                   "shows";
        case ENOENT:
            return "make the directory first: mkdir -p " + address.substr(0, address.rfind('/'));
        default: return describe(error);
    }
}

}  // namespace

Result<Descriptor> listen_on(std::string& address, Report& report) {
    ROS2S_TRY_ASSIGN(SocketAddress parsed, parse(address, report));
    Descriptor socket(
        ::socket(parsed.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket.open()) return fail_errno(errno);
    const int on = 1;
    if (!parsed.is_unix()) setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    int failed = bind(socket.get(), parsed.get(), parsed.length) == 0 ? 0 : errno;
    if (failed == EADDRINUSE && parsed.is_unix() && address.front() != '@') {
        // A file of a dead server is replaced; a live server answers.
        const Descriptor probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
        if (is_left_behind(probe.get(), parsed.get(), parsed.length)) {
            unlink(address.c_str());
            failed = bind(socket.get(), parsed.get(), parsed.length) == 0 ? 0 : errno;
        }
    }
    if (failed == 0 && listen(socket.get(), backlog) != 0) failed = errno;
    if (failed == EADDRINUSE) {
        return report.fail(Code::busy,
                           "the address " + address +
                               " is in use: " + (parsed.is_unix() ? "`ss -lxp`" : "`ss -ltnp`") +
                               " shows which program listens there; stop it, or choose another");
    }
    if (failed != 0) {
        const auto error = fail_errno(failed).error();
        return report.fail(error, "cannot listen on " + address + ": " + why_not(error, address));
    }
    if (!parsed.is_unix() && address.ends_with(":0")) {
        getsockname(socket.get(), parsed.get(), &parsed.length);
        const uint16_t port = ntohs(reinterpret_cast<sockaddr_in&>(parsed.storage).sin_port);
        address = address.substr(0, address.size() - 1) + std::to_string(port);
    }
    return socket;
}

Task<Result<Descriptor>> listen_when_free(Reactor& reactor, std::string& address, Report& report) {
    const Time give_up = reactor.now() + dead_owner_wait;
    while (true) {
        Report refusal;
        auto listening = listen_on(address, refusal);
        const bool busy = !listening && listening.error().code == Code::busy;
        if (!busy || reactor.now() >= give_up) {
            if (!listening) report.say(refusal.text());
            co_return listening;
        }
        co_await sleep_for(reactor, std::chrono::milliseconds(10));
    }
}

Task<Result<Descriptor>> accept_from(Reactor& reactor, int listening, StopToken stop) {
    while (!stop.stop_requested()) {
        Descriptor peer(accept4(listening, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (peer.open()) co_return peer;
        if (errno == EAGAIN) {
            ROS2S_CO_TRY(co_await ready(reactor, listening, POLLIN, stop));
        } else if (errno != ECONNABORTED && errno != EINTR) {
            co_await sleep_for(reactor, std::chrono::milliseconds(20), stop);
        }
    }
    co_return fail(Code::cancelled);
}

Peer peer_at(int fd, const std::string& provider) {
    Peer peer{.name = "unknown (" + provider + ")"};
    sockaddr_storage address{};
    socklen_t length = sizeof address;
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) return peer;
    if (address.ss_family == AF_UNIX) {
        ucred who{};
        socklen_t size = sizeof who;
        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) != 0) return peer;
        peer.process = who.pid;
        peer.user = who.uid;
        peer.group = who.gid;
        peer.name = "process " + std::to_string(who.pid) + " of user " + std::to_string(who.uid) +
                    " (" + provider + ")";
        return peer;
    }
    std::array<char, 64> host{};
    std::array<char, 16> port{};
    if (getnameinfo(reinterpret_cast<sockaddr*>(&address), length, host.data(), host.size(),
                    port.data(), port.size(), NI_NUMERICHOST | NI_NUMERICSERV) == 0) {
        peer.host = host.data();
        peer.name = peer.host + " port " + port.data() + " (" + provider + ")";
    }
    return peer;
}

void keep_alive(int fd) noexcept {
    const int on = 1;
    const int idle_s = 2;
    const int interval_s = 1;
    const int probes = 5;
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
}

void remove_socket_file(const std::string& address) noexcept {
    if (address.front() != '@' && address.find('/') != std::string::npos) unlink(address.c_str());
}

Task<Result<Descriptor>> connect_to(Reactor& reactor, std::string address, StopToken stop,
                                    Report& report) {
    ROS2S_CO_TRY_ASSIGN(SocketAddress parsed, parse(address, report));
    Descriptor socket(
        ::socket(parsed.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket.open()) co_return fail_errno(errno);
    int failed = connect(socket.get(), parsed.get(), parsed.length) == 0 ? 0 : errno;
    while (failed == EAGAIN) {  // a Unix listener's backlog is full
        if (!co_await sleep_for(reactor, std::chrono::milliseconds(1), stop)) {
            co_return fail(Code::cancelled);
        }
        failed = connect(socket.get(), parsed.get(), parsed.length) == 0 ? 0 : errno;
    }
    if (failed == EINPROGRESS) {
        ROS2S_CO_TRY(co_await ready(reactor, socket.get(), POLLOUT, stop));
        socklen_t length = sizeof failed;
        getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &failed, &length);
    }
    if (failed == ENOENT || failed == ECONNREFUSED) {
        co_return report.fail(Error{Code::disconnected, failed, 0},
                              "no process listens at " + address +
                                  ": is the server running, and is this its address?");
    }
    if (failed != 0) {
        const auto error = fail_errno(failed).error();
        co_return report.fail(error, "cannot connect to " + address + ": " + describe(error));
    }
    if (!parsed.is_unix()) {
        const int on = 1;
        setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    }
    co_return socket;
}

}  // namespace ros2s::fabric
