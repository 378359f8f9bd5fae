#include "stranger.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

namespace ros2s::tests {
namespace {

constexpr auto patience = std::chrono::seconds(30);

union Address {
    sockaddr any;
    sockaddr_in network;
    sockaddr_un local;
};

socklen_t address_of(const ListenAddress& listener, Address& address) {
    std::memset(&address, 0, sizeof address);
    if (listener.address.starts_with('/')) {
        address.local.sun_family = AF_UNIX;
        EXPECT_LT(listener.address.size(), sizeof address.local.sun_path);
        listener.address.copy(address.local.sun_path, sizeof address.local.sun_path - 1);
        return sizeof address.local;
    }
    address.network.sin_family = AF_INET;
    address.network.sin_port = htons(
        static_cast<uint16_t>(std::stoi(listener.address.substr(listener.address.rfind(':') + 1))));
    address.network.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return sizeof address.network;
}

}  // namespace

Stranger::Stranger(const ListenAddress& listener) {
    Address address;
    const socklen_t size = address_of(listener, address);
    const auto until = std::chrono::steady_clock::now() + patience;
    while (std::chrono::steady_clock::now() < until) {
        // A Unix socket with a full queue returns an error instead of waiting.
        socket_ = ::socket(address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        pollfd writable{.fd = socket_, .events = POLLOUT, .revents = 0};
        if (::connect(socket_, &address.any, size) == 0 ||
            (errno == EINPROGRESS && ::poll(&writable, 1, 30'000) == 1)) {
            return;
        }
        ::close(socket_);
        socket_ = -1;
        (void)::poll(nullptr, 0, 1);
    }
}

Stranger::~Stranger() {
    if (socket_ >= 0) ::close(socket_);
}

void Stranger::say(std::string_view bytes) const {
    (void)::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
}

bool Stranger::is_hung_up(std::string* answer) const {
    char part[512];
    for (;;) {
        pollfd readable{.fd = socket_, .events = POLLIN, .revents = 0};
        if (::poll(&readable, 1, 30'000) != 1) return false;
        const ssize_t got = ::recv(socket_, part, sizeof part, 0);
        if (got <= 0) return got == 0 || errno != EAGAIN;
        if (answer != nullptr) answer->append(part, static_cast<size_t>(got));
    }
}

std::string Stranger::hear(size_t bytes) const {
    std::string heard(bytes, '\0');
    size_t at = 0;
    while (at < bytes) {
        pollfd readable{.fd = socket_, .events = POLLIN, .revents = 0};
        if (::poll(&readable, 1, 30'000) != 1) break;
        const ssize_t got = ::recv(socket_, &heard[at], bytes - at, 0);
        if (got <= 0) break;
        at += static_cast<size_t>(got);
    }
    heard.resize(at);
    return heard;
}

}  // namespace ros2s::tests
