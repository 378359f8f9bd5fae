#include "notify_socket.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>

namespace ros2s::cli {
namespace {

constexpr size_t message_bytes_max = 8 * 1024;

std::optional<std::vector<std::string>> addresses_if_ready(std::string_view message) {
    constexpr std::string_view address = "X_ROS2STORE_ADDRESS=";
    bool is_ready = false;
    std::vector<std::string> addresses;
    while (!message.empty()) {
        const auto line = message.substr(0, message.find('\n'));
        message.remove_prefix(std::min(line.size() + 1, message.size()));
        is_ready = is_ready || line == "READY=1";
        if (line.starts_with(address)) addresses.emplace_back(line.substr(address.size()));
    }
    if (!is_ready) return std::nullopt;
    return addresses;
}

}  // namespace

Result<NotifySocket> NotifySocket::open(std::string path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path) return fail_errno(ENAMETOOLONG);
    std::ranges::copy(path, address.sun_path);
    ::unlink(path.c_str());  // left by an `up` that was killed
    NotifySocket made(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0),
                      std::move(path));
    if (made.descriptor_.get() < 0 ||
        ::bind(made.descriptor_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) !=
            0) {
        return fail_errno(errno);
    }
    return made;
}

NotifySocket::~NotifySocket() {
    if (descriptor_.get() >= 0) ::unlink(path_.c_str());
}

std::optional<std::vector<std::string>> NotifySocket::ready() const {
    std::array<char, message_bytes_max> bytes;
    for (;;) {
        const ssize_t got = ::recv(descriptor_.get(), bytes.data(), bytes.size(), 0);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return std::nullopt;
        if (auto ready = addresses_if_ready({bytes.data(), static_cast<size_t>(got)})) return ready;
    }
}

}  // namespace ros2s::cli
