#include "relay.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <vector>

namespace ros2s::tests {
namespace {

sockaddr_un address_of(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    EXPECT_LT(path.size(), sizeof address.sun_path);
    std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
    return address;
}

}  // namespace

Relay::Relay(const std::string& path, std::string target)
    : target_(std::move(target)), listener_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const sockaddr_un address = address_of(path);
    EXPECT_EQ(::bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(::listen(listener_, 16), 0);
    thread_ = std::thread([this] { run(); });
}

Relay::~Relay() {
    stopping_ = true;
    thread_.join();
    ::close(listener_);
    for (const Pair& pair : pairs_) {
        ::close(pair.client);
        ::close(pair.server);
    }
}

void Relay::accept_one() {
    Pair pair{.client = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC),
              .server = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    const sockaddr_un address = address_of(target_);
    EXPECT_EQ(::connect(pair.server, reinterpret_cast<const sockaddr*>(&address), sizeof address),
              0);
    pairs_.push_back(pair);
}

// False: the other end has closed.
bool Relay::pass(int from, int to) {
    std::array<char, 16384> bytes;
    const ssize_t got = ::recv(from, bytes.data(), bytes.size(), 0);
    for (ssize_t sent = 0; sent < got;) {
        const ssize_t now =
            ::send(to, bytes.data() + sent, static_cast<size_t>(got - sent), MSG_NOSIGNAL);
        if (now <= 0) return false;
        sent += now;
    }
    return got > 0;
}

void Relay::run() {
    while (!stopping_) {
        if (cut_) {
            ::poll(nullptr, 0, 10);
            continue;
        }
        std::vector<pollfd> polled{{.fd = listener_, .events = POLLIN, .revents = 0}};
        for (const Pair& pair : pairs_) {
            polled.push_back({.fd = pair.client, .events = POLLIN, .revents = 0});
            polled.push_back({.fd = pair.server, .events = POLLIN, .revents = 0});
        }
        if (::poll(polled.data(), polled.size(), 10) <= 0 || cut_) continue;
        size_t at = 1;
        for (auto pair = pairs_.begin(); pair != pairs_.end();) {
            bool is_open = true;
            if (polled[at++].revents != 0) is_open = pass(pair->client, pair->server);
            if (polled[at++].revents != 0) is_open = pass(pair->server, pair->client) && is_open;
            if (is_open) {
                ++pair;
                continue;
            }
            ::close(pair->client);
            ::close(pair->server);
            pair = pairs_.erase(pair);
        }
        if (polled[0].revents != 0) accept_one();
    }
}

}  // namespace ros2s::tests
