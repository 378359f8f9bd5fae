#include "connections.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "ros2s/base/check.h"
#include "ros2s/runtime/thread.h"

namespace ros2s::control {
namespace {

constexpr int round_ms = 500;  // half of what rounds() promises, for machines that are late
constexpr int starved_ms = 50;
constexpr int accepted_per_round = 64;  // for each listening socket

std::string text_of(int family, const void* address) {
    char text[INET6_ADDRSTRLEN] = {};
    ::inet_ntop(family, address, text, sizeof text);
    return text;
}

struct PeerName {
    std::string address, peer;
};

PeerName user_at(int descriptor) {
    ucred user{};
    socklen_t bytes = sizeof user;
    ::getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &user, &bytes);
    return {.address = {}, .peer = fmt::format("user {}", user.uid)};
}

// In the form of gRPC's addresses: a mapped IPv4 address as IPv4, brackets as in URIs.
PeerName peer_at(int descriptor) {
    sockaddr_storage name{};
    socklen_t bytes = sizeof name;
    ::getpeername(descriptor, reinterpret_cast<sockaddr*>(&name), &bytes);
    if (name.ss_family == AF_INET) {
        const auto& four = reinterpret_cast<const sockaddr_in&>(name);
        const std::string text = text_of(AF_INET, &four.sin_addr);
        return {.address = fmt::format("ipv4:{}:{}", text, ntohs(four.sin_port)), .peer = text};
    }
    if (name.ss_family != AF_INET6) return user_at(descriptor);
    const auto& six = reinterpret_cast<const sockaddr_in6&>(name);
    if (IN6_IS_ADDR_V4MAPPED(&six.sin6_addr)) {
        const std::string text = text_of(AF_INET, &six.sin6_addr.s6_addr[12]);
        return {.address = fmt::format("ipv4:{}:{}", text, ntohs(six.sin6_port)), .peer = text};
    }
    // An owner of one address in a 64-bit network usually has them all.
    in6_addr network = six.sin6_addr;
    std::fill_n(&network.s6_addr[8], 8, uint8_t{0});
    return {.address = fmt::format("ipv6:%5B{}%5D:{}", text_of(AF_INET6, &six.sin6_addr),
                                   ntohs(six.sin6_port)),
            .peer = text_of(AF_INET6, &network)};
}

}  // namespace

Connections::Connections(const admission::Accounts& accounts, Bounds bounds, Log log)
    : bounds_(bounds), log_(std::move(log)), shares_(accounts, bounds.all, bounds.per_subject) {}

Connections::~Connections() { ROS2S_CHECK(!thread_.joinable()); }

Result<std::string> Connections::listen(const std::string& address, Report& report) {
    ROS2S_TRY_ASSIGN(Listening listening, open_listening(address, report));
    for (Descriptor& socket : listening.sockets) listening_.push_back(std::move(socket));
    if (address.starts_with(unix_scheme)) paths_.push_back(address.substr(unix_scheme.size()));
    return listening.address;
}

Result<> Connections::start(std::function<void(int descriptor)> take) {
    take_ = std::move(take);
    poll_ = Descriptor(::epoll_create1(EPOLL_CLOEXEC));
    wake_ = Descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (poll_.get() < 0 || wake_.get() < 0) return fail_errno(errno);
    const auto watch = [this](int descriptor) -> Result<> {
        epoll_event event{.events = EPOLLIN, .data = {.u64 = static_cast<uint64_t>(descriptor)}};
        if (::epoll_ctl(poll_.get(), EPOLL_CTL_ADD, descriptor, &event) != 0) {
            return fail_errno(errno);
        }
        return {};
    };
    ROS2S_TRY(watch(wake_.get()));
    for (const Descriptor& socket : listening_) ROS2S_TRY(watch(socket.get()));
    ROS2S_TRY_ASSIGN(thread_, start_thread("ros2s-accept", [this] { run(); }));
    return {};
}

void Connections::stop() {
    if (thread_.joinable()) {
        const uint64_t one = 1;
        ROS2S_CHECK(::write(wake_.get(), &one, sizeof one) == sizeof one);
        thread_.join();
    }
    listening_.clear();
    for (const std::string& path : paths_) ::unlink(path.c_str());
    paths_.clear();
    const std::lock_guard lock(mutex_);
    while (!connections_.empty()) forget(connections_.begin()->first);
}

size_t Connections::count() const {
    const std::lock_guard lock(mutex_);
    return connections_.size();
}

size_t Connections::unproven() const {
    const std::lock_guard lock(mutex_);
    return unproven_count_;
}

// ---- the accepting thread ----------------------------------------------------------------------

void Connections::run() {
    epoll_event events[64];
    const auto stopping = [this] {
        uint64_t said = 0;
        return ::read(wake_.get(), &said, sizeof said) == sizeof said;
    };
    while (!stopping()) {
        rounds_.add();
        const int count = ::epoll_wait(poll_.get(), events, std::size(events), round_ms);
        believe_users();
        for (int i = 0; i < count; ++i) look_at(events[i].data.u64);
        if (!is_starved_) continue;
        // Waiting connections would end each epoll_wait() at once.
        pollfd wake{.fd = wake_.get(), .events = POLLIN, .revents = 0};
        (void)::poll(&wake, 1, starved_ms);
    }
}

void Connections::look_at(uint64_t tag) {
    if (tag >= first_number) {
        const std::lock_guard lock(mutex_);
        if (connections_.contains(tag)) forget(tag);
        return;
    }
    const auto descriptor = static_cast<int>(tag);
    if (descriptor == wake_.get()) return;
    for (int i = 0; i < accepted_per_round && accept_one(descriptor); ++i) {
    }
}

bool Connections::accept_one(int listening) {
    Descriptor socket(::accept4(listening, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket.get() < 0) {
        const int error = errno;
        if (error == EAGAIN) return false;
        // Errors of a connection that ended before it was accepted; accept(2) reports network
        // errors, too.
        constexpr int of_the_connection[] = {EINTR,    ECONNABORTED, EPROTO,       ENETDOWN,
                                             EPERM,    EHOSTDOWN,    EHOSTUNREACH, ENONET,
                                             ENOTCONN, ENETUNREACH,  ENOPROTOOPT,  EOPNOTSUPP};
        if (std::ranges::find(of_the_connection, error) != std::end(of_the_connection)) return true;
        starve(error);
        return false;
    }
    Descriptor watched(::fcntl(socket.get(), F_DUPFD_CLOEXEC, 0));
    if (watched.get() < 0) {
        starve(errno);
        return false;
    }
    if (std::exchange(is_starved_, false)) {
        log_.info("control plane: file descriptors are available again; connections are accepted");
    }
    PeerName peer = peer_at(socket.get());
    if (add({.watched = std::move(watched),
             .address = std::move(peer.address),
             .peer = std::move(peer.peer),
             .subject = {}})) {
        take_(socket.release());
    }
    return true;
}

// Nothing ends the loop: it waits, and ends a connection to make room.
void Connections::starve(int error) {
    without_descriptors_.add();
    if (!std::exchange(is_starved_, true)) {
        log_.error(
            "control plane: a connection cannot be accepted ({}). It waits; connections without a "
            "certificate are closed to make room. If this repeats, raise LimitNOFILE=",
            std::strerror(error));
    }
    const std::lock_guard lock(mutex_);
    end_one();
}

// ---- what there is -----------------------------------------------------------------------------

bool Connections::add(Connection connection) {
    const std::lock_guard lock(mutex_);
    while (connections_.size() >= bounds_.all || unproven_count_ >= bounds_.unproven) {
        if (!end_one()) return false;
    }
    const uint64_t number = next_++;
    // Hang-ups are always reported.
    epoll_event event{.events = 0, .data = {.u64 = number}};
    if (::epoll_ctl(poll_.get(), EPOLL_CTL_ADD, connection.watched.get(), &event) != 0) {
        return false;
    }
    if (connection.address.empty()) {
        new_users_.push_back({.come = std::chrono::steady_clock::now(), .number = number});
    } else {
        by_address_[connection.address] = number;
    }
    unproven_[connection.peer].insert(number);
    ++unproven_count_;
    connections_.emplace(number, std::move(connection));
    return true;
}

bool Connections::end_one() {
    const auto most = std::ranges::max_element(
        unproven_, {}, [](const auto& of_peer) { return of_peer.second.size(); });
    if (most == unproven_.end()) return false;
    const uint64_t oldest = *most->second.begin();
    ended_for_room_.add();
    ::shutdown(connections_.at(oldest).watched.get(), SHUT_RDWR);
    forget(oldest);
    return true;
}

// Connections beyond the limit stay unproven, and are ended if room is needed.
void Connections::believe_users() {
    const std::lock_guard lock(mutex_);
    // gRPC's time limit starts a little later than ours.
    const auto long_ago = std::chrono::steady_clock::now() - 2 * bounds_.handshake_max;
    for (; !new_users_.empty() && new_users_.front().come <= long_ago; new_users_.pop_front()) {
        const uint64_t number = new_users_.front().number;
        const auto found = connections_.find(number);
        if (found == connections_.end()) continue;
        Connection& connection = found->second;
        if (!shares_.take(connection.peer)) continue;
        connection.subject = connection.peer;
        forget_unproven(connection.peer, number);
    }
}

void Connections::forget(uint64_t number) {
    const auto found = connections_.find(number);
    const Connection& connection = found->second;
    // gRPC still has the socket open, so closing our descriptor does not end the watch.
    ::epoll_ctl(poll_.get(), EPOLL_CTL_DEL, connection.watched.get(), nullptr);
    if (const auto at = by_address_.find(connection.address);
        at != by_address_.end() && at->second == number) {
        by_address_.erase(at);
    }
    if (connection.subject.empty()) {
        forget_unproven(connection.peer, number);
    } else {
        shares_.give_back(connection.subject);
    }
    connections_.erase(found);
}

void Connections::forget_unproven(const std::string& peer, uint64_t number) {
    const auto of_peer = unproven_.find(peer);
    of_peer->second.erase(number);
    if (of_peer->second.empty()) unproven_.erase(of_peer);
    --unproven_count_;
}

Result<> Connections::proven(const std::string& peer, const std::string& subject,
                             std::string* whose) {
    const std::lock_guard lock(mutex_);
    const auto at = by_address_.find(peer);
    if (at == by_address_.end()) return {};
    const uint64_t number = at->second;
    Connection& connection = connections_.at(number);
    if (!connection.subject.empty()) return {};
    if (const auto room = shares_.take(subject, whose); !room) {
        ::shutdown(connection.watched.get(), SHUT_RDWR);
        forget(number);
        return room;
    }
    forget_unproven(connection.peer, number);
    connection.subject = subject;
    return {};
}

}  // namespace ros2s::control
