#include "peers.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>

namespace ros2s::tests {
namespace {

std::string describe_inet(const sockaddr_storage& peer) {
    std::array<char, INET6_ADDRSTRLEN> text{};
    sockaddr_in four{};
    sockaddr_in6 six{};
    if (peer.ss_family == AF_INET) {
        std::memcpy(&four, &peer, sizeof four);
        ::inet_ntop(AF_INET, &four.sin_addr, text.data(), text.size());
        return fmt::format("{} port {}", text.data(), ntohs(four.sin_port));
    }
    std::memcpy(&six, &peer, sizeof six);
    ::inet_ntop(AF_INET6, &six.sin6_addr, text.data(), text.size());
    return fmt::format("{} port {}", text.data(), ntohs(six.sin6_port));
}

void add_peer(int socket, Peers& peers) {
    sockaddr_storage peer{};
    socklen_t length = sizeof peer;
    if (::getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &length) != 0) return;
    if (peer.ss_family != AF_UNIX) {
        peers.inet.insert(describe_inet(peer));
        return;
    }
    ucred process{};
    length = sizeof process;
    if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &process, &length) != 0) return;
    if (process.pid != ::getpid()) peers.processes.insert(process.pid);
}

}  // namespace

Peers peers_of_this_process() {
    Peers peers;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
        const int descriptor = std::stoi(entry.path().filename());
        struct stat status{};
        if (::fstat(descriptor, &status) == 0 && S_ISSOCK(status.st_mode)) {
            add_peer(descriptor, peers);
        }
    }
    return peers;
}

}  // namespace ros2s::tests
