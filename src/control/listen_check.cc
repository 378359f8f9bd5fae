#include "listen_check.h"

#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <string_view>

namespace ros2s::control {
namespace {

constexpr std::string_view unix_scheme = "unix:";

class Socket {
  public:
    explicit Socket(int family) : fd_(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0)) {}
    ~Socket() { ::close(fd_); }
    Socket(const Socket&) = delete;
    Socket& operator=(const Socket&) = delete;
    [[nodiscard]] int get() const { return fd_; }

  private:
    int fd_;
};

std::unexpected<Error> no(const std::string& address, const Error& error, std::string_view why,
                          Report& report) {
    return report.fail(
        error, fmt::format("the control plane cannot listen on {}: {} ('control: listen' in the "
                           "settings)",
                           address, why));
}

std::string why_not(const std::string& host, int failed) {
    switch (failed) {
        case EADDRINUSE:
            return "another process has that port: `ss -ltnp` says which; stop it, or choose "
                   "another";
        case EADDRNOTAVAIL:
            return fmt::format(
                "{} is no address of this machine: choose one that `ip -brief "
                "address` shows",
                host);
        case EACCES: return "ports below 1024 are root's: choose another";
        default: return std::strerror(failed);
    }
}

Result<> check_path(const std::string& address, Report& report) {
    const std::string path = address.substr(unix_scheme.size());
    sockaddr_un name{.sun_family = AF_UNIX, .sun_path = {}};
    if (path.size() >= sizeof name.sun_path) {
        return no(address, {.code = Code::invalid},
                  fmt::format("the path is longer than the {} bytes that a socket may have",
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
    const Socket probe(AF_UNIX);
    if (::connect(probe.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) == 0) {
        return no(address, {.code = Code::busy},
                  "another process listens there: `ss -lxp` says which; stop it, or choose another",
                  report);
    }
    return {};
}

Result<> check_port(const std::string& address, Report& report) {
    const size_t colon = address.rfind(':');
    const std::string port = address.substr(colon + 1);
    std::string host = address.substr(0, colon);
    if (host.starts_with('[')) host = host.substr(1, host.size() - 2);
    uint16_t number = 0;
    if (std::from_chars(port.data(), port.data() + port.size(), number).ec != std::errc{}) {
        return no(address, {.code = Code::invalid}, "a port is a number up to 65535", report);
    }
    const addrinfo wanted{
        .ai_flags = AI_PASSIVE, .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    addrinfo* found = nullptr;
    const int unknown = ::getaddrinfo(host.c_str(), port.c_str(), &wanted, &found);
    const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list(found, &::freeaddrinfo);
    if (unknown != 0) {
        return no(address, {.code = Code::not_found},
                  fmt::format("'{}' is not known here ({}): write an address of this machine", host,
                              ::gai_strerror(unknown)),
                  report);
    }
    int failed = 0;
    // One of a name's addresses is enough for gRPC.
    for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
        const Socket socket(each->ai_family);
        const int on = 1;
        ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        const bool taken = ::bind(socket.get(), each->ai_addr, each->ai_addrlen) == 0 &&
                           ::listen(socket.get(), 1) == 0;
        if (taken) return {};
        failed = errno;
    }
    const Code code = failed == EADDRINUSE || failed == EADDRNOTAVAIL
                          ? Code::busy
                          : fail_errno(failed).error().code;
    return no(address, {.code = code}, why_not(host, failed), report);
}

}  // namespace

Result<> check_listening(const std::string& address, Report& report) {
    const size_t colon = address.rfind(':');
    const bool whole = colon != address.npos && colon > 0 && colon + 1 < address.size();
    const bool numeric =
        whole && address.find_first_not_of("0123456789", colon + 1) == address.npos;
    if (whole && address.starts_with(unix_scheme)) return check_path(address, report);
    if (whole && numeric) return check_port(address, report);
    return report.fail(Code::invalid,
                       fmt::format("'{}' is no address to listen on; give HOST:PORT, [IPv6]:PORT "
                                   "or unix:PATH",
                                   address));
}

}  // namespace ros2s::control
