#include "notify_socket.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string_view>

namespace ros2s::cli {
namespace {

constexpr size_t message_bytes_max = 8 * 1024;

// Who sent it, by the kernel's word.
pid_t sender_of(msghdr& message) {
    for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
         part = CMSG_NXTHDR(&message, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_CREDENTIALS) continue;
        ucred credentials{};
        std::memcpy(&credentials, CMSG_DATA(part), sizeof credentials);
        return credentials.pid;
    }
    return 0;
}

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

Result<NotifySocket> NotifySocket::open() {
    const int descriptor = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (descriptor < 0) return fail_errno(errno);
    NotifySocket made(descriptor, "");
    const int on = 1;
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    socklen_t length = sizeof address;
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    // An address without a name: the kernel chooses one, in no directory.
    if (::setsockopt(descriptor, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) != 0 ||
        ::bind(descriptor, generic, sizeof address.sun_family) != 0 ||
        ::getsockname(descriptor, generic, &length) != 0) {
        return fail_errno(errno);
    }
    made.name_ = std::string(address.sun_path, length - offsetof(sockaddr_un, sun_path));
    made.name_.front() = '@';
    return made;
}

NotifySocket::~NotifySocket() {
    if (descriptor_ >= 0) ::close(descriptor_);
}

std::optional<std::vector<std::string>> NotifySocket::ready(pid_t pid) const {
    std::array<char, message_bytes_max> bytes;
    for (;;) {
        iovec into{.iov_base = bytes.data(), .iov_len = bytes.size()};
        alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(ucred))> control;
        msghdr message{};
        message.msg_iov = &into;
        message.msg_iovlen = 1;
        message.msg_control = control.data();
        message.msg_controllen = control.size();
        const ssize_t got = ::recvmsg(descriptor_, &message, MSG_DONTWAIT);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return std::nullopt;
        if (sender_of(message) != pid) continue;
        if (auto ready = addresses_if_ready({bytes.data(), static_cast<size_t>(got)})) return ready;
    }
}

}  // namespace ros2s::cli
