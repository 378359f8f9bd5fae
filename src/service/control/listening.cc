#include "listening.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

namespace ros2s::control {
namespace {

constexpr int pending_connections = 4096;  // the kernel has a limit of its own

Descriptor new_socket(int family) {
    return Descriptor(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

std::unexpected<Error> no(const std::string& address, const Error& error, std::string_view why,
                          Report& report) {
    return report.fail(
        error, "the control plane cannot listen on {}: {} ('control: listen' in the settings)",
        address, why);
}

std::string why_not(const std::string& host, int failed) {
    switch (failed) {
        case EADDRINUSE:
            return "another process has that port: `ss -ltnp` shows which one; stop it, or "
                   "choose another port";
        case EADDRNOTAVAIL:
            return fmt::format(
                "{} is not an address of this machine: choose one that `ip -brief address` shows",
                host);
        case EACCES: return "only root may use ports below 1024: choose another";
        default: return std::strerror(failed);
    }
}

Result<sockaddr_un> name_of(const std::string& address, Report& report) {
    const std::string path = address.substr(unix_scheme.size());
    sockaddr_un name{.sun_family = AF_UNIX, .sun_path = {}};
    if (path.size() >= sizeof name.sun_path) {
        return no(address, {.code = Code::invalid},
                  fmt::format("the path is longer than {} bytes, the limit for a socket",
                              sizeof name.sun_path - 1),
                  report);
    }
    const std::string directory = path.substr(0, path.rfind('/') + 1);
    if (::access(directory.empty() ? "." : directory.c_str(), W_OK | X_OK) != 0) {
        const int failed = errno;
        return no(address, fail_errno(failed).error(),
                  failed == ENOENT ? fmt::format("make the directory first: mkdir -p {}", directory)
                                   : fmt::format("{}: {}", directory, std::strerror(failed)),
                  report);
    }
    path.copy(name.sun_path, path.size());
    const Descriptor probe = new_socket(AF_UNIX);
    if (::connect(probe.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) == 0 ||
        errno == EAGAIN) {
        return no(address, {.code = Code::busy},
                  "another process listens there: `ss -lxp` shows which one; stop it, or "
                  "choose another path",
                  report);
    }
    return name;
}

Result<Listening> listen_at_path(const std::string& address, Report& report) {
    ROS2S_TRY_ASSIGN(const sockaddr_un name, name_of(address, report));
    struct stat there{};
    if (::lstat(name.sun_path, &there) == 0 && S_ISSOCK(there.st_mode)) ::unlink(name.sun_path);
    Descriptor socket = new_socket(AF_UNIX);
    if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0 ||
        ::listen(socket.get(), pending_connections) != 0) {
        const int failed = errno;
        const Code code = failed == EADDRINUSE ? Code::busy : fail_errno(failed).error().code;
        return no(address, {.code = code}, std::strerror(failed), report);
    }
    Listening result{.address = address, .sockets = {}};
    result.sockets.push_back(std::move(socket));
    return result;
}

// The port of a bound socket, or the port to bind.
uint16_t port_of(const sockaddr* address) {
    return ntohs(address->sa_family == AF_INET6
                     ? reinterpret_cast<const sockaddr_in6*>(address)->sin6_port
                     : reinterpret_cast<const sockaddr_in*>(address)->sin_port);
}

Result<Descriptor> listen_at(const addrinfo& place, uint16_t port) {
    sockaddr_storage address{};
    std::memcpy(&address, place.ai_addr, place.ai_addrlen);
    if (place.ai_family == AF_INET6) {
        reinterpret_cast<sockaddr_in6&>(address).sin6_port = htons(port);
    } else {
        reinterpret_cast<sockaddr_in&>(address).sin_port = htons(port);
    }
    Descriptor socket = new_socket(place.ai_family);
    const int on = 1;
    ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    // Accepted connections inherit it.
    ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), place.ai_addrlen) != 0 ||
        ::listen(socket.get(), pending_connections) != 0) {
        return fail_errno(errno);
    }
    return socket;
}

Result<Listening> listen_at_port(const std::string& address, Report& report) {
    const size_t colon = address.rfind(':');
    const std::string text = address.substr(colon + 1);
    std::string host = address.substr(0, colon);
    if (host.starts_with('[')) host = host.substr(1, host.size() - 2);
    uint16_t port = 0;
    if (std::from_chars(text.data(), text.data() + text.size(), port).ec != std::errc{}) {
        return no(address, {.code = Code::invalid}, "a port is a number up to 65535", report);
    }
    const addrinfo wanted{
        .ai_flags = AI_PASSIVE, .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    addrinfo* found = nullptr;
    const int unknown = ::getaddrinfo(host.c_str(), text.c_str(), &wanted, &found);
    const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list(found, &::freeaddrinfo);
    if (unknown != 0) {
        return no(address, {.code = Code::not_found},
                  fmt::format("'{}' is unknown ({}): write an address of this machine", host,
                              ::gai_strerror(unknown)),
                  report);
    }
    Listening result;
    Error failed{.code = Code::io};
    // One of a name's addresses is enough.
    for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
        auto socket = listen_at(*each, port);
        if (!socket) {
            failed = socket.error();
            continue;
        }
        sockaddr_storage taken{};
        socklen_t bytes = sizeof taken;
        ::getsockname(socket->get(), reinterpret_cast<sockaddr*>(&taken), &bytes);
        port = port_of(reinterpret_cast<const sockaddr*>(&taken));
        result.sockets.push_back(std::move(*socket));
    }
    if (result.sockets.empty()) {
        const auto number = failed.os_errno;
        const bool is_taken = number == EADDRINUSE || number == EADDRNOTAVAIL;
        return no(address, {.code = is_taken ? Code::busy : failed.code}, why_not(host, number),
                  report);
    }
    result.address = fmt::format("{}:{}", address.substr(0, colon), port);
    return result;
}

bool is_path(const std::string& address) { return address.starts_with(unix_scheme); }

Result<> check_form(const std::string& address, Report& report) {
    const size_t colon = address.rfind(':');
    const bool whole = colon != address.npos && colon > 0 && colon + 1 < address.size();
    const bool numeric =
        whole && address.find_first_not_of("0123456789", colon + 1) == address.npos;
    if (whole && (numeric || is_path(address))) return {};
    return report.fail(
        Code::invalid,
        "'{}' is not an address to listen on; give HOST:PORT, [IPv6]:PORT or unix:PATH", address);
}

}  // namespace

Result<> check_listening(const std::string& address, Report& report) {
    ROS2S_TRY(check_form(address, report));
    if (is_path(address)) {
        ROS2S_TRY(name_of(address, report));
    } else {
        ROS2S_TRY(listen_at_port(address, report));
    }
    return {};
}

Result<Listening> open_listening(const std::string& address, Report& report) {
    ROS2S_TRY(check_form(address, report));
    return is_path(address) ? listen_at_path(address, report) : listen_at_port(address, report);
}

}  // namespace ros2s::control
