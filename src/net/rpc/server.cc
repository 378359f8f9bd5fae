#include "ros2s/rpc/server.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "server_connection.h"

namespace ros2s::rpc {
namespace {

std::vector<std::byte> make_frame(FrameHeader header, ConstBytes body) {
    std::vector<std::byte> memory(frame_bytes(0, body.size()));
    encode_frame(header, {}, {}, body, memory);
    return memory;
}

std::vector<std::byte> failure_frame(Error error, std::string_view text) {
    std::vector<std::byte> memory(failure_bytes_max);
    FrameHeader header;
    header.kind = Kind::failure;
    return make_frame(header, encode(FailureBody{.error = error, .text = text}, memory));
}

// The numbers of docs/formats/rpc.md.
std::string service_name(uint32_t number) {
    return number == 7                  ? "object store"
           : number == 1                ? "object store of an older release"
           : number == 6                ? "host link"
           : number >= 2 && number <= 5 ? "host link of an older release"
                                        : fmt::format("service {}", number);
}

Quota::Who counted_for(const Guest& guest, const fabric::Peer& peer) {
    uint64_t subject = 0;
    std::memcpy(&subject, guest.owner.bytes.data(), sizeof subject);
    if (peer.user >= 0) subject = static_cast<uint64_t>(peer.user);
    return {guest.tenant, subject};
}

std::string at_limit(const Quota& quota, Quota::Limit limit, const Guest& guest,
                     const fabric::Peer& peer) {
    const Quota::Who who = counted_for(guest, peer);
    const Quota::Bounds& bounds = quota.bounds();
    const auto sentence = [](std::string_view has, uint64_t used, uint64_t most,
                             std::string_view setting) {
        return fmt::format(
            "{} {} connections to this server. That is as many as it may have: at most {} "
            "('{}' under 'service' in the server's settings), and no more than are left for "
            "others. Close some, or wait",
            has, used, most, setting);
    };
    switch (limit) {
        case Quota::Limit::subject:
            return sentence(peer.user >= 0 ? fmt::format("user {} has", peer.user)
                                           : "the subject of this certificate has",
                            quota.used(who), bounds.per_subject, "connections_of_user");
        case Quota::Limit::tenant:
            return sentence("the tenant has", quota.used_by_tenant(who.tenant), bounds.per_tenant,
                            "connections_of_tenant");
        case Quota::Limit::all: break;
    }
    return sentence("all clients have", quota.used(), bounds.in_all, "connections");
}

static_assert(frame_bytes(0, hello_bytes_max) <= fabric::PeerCheck::credential_bytes_max);
static_assert(frame_bytes(0, failure_bytes_max) <= fabric::PeerCheck::verdict_bytes_max);

}  // namespace

Server::Server(Reactor& reactor, fabric::Domain& domain, Service& service, Gate& gate,
               ServerOptions options)
    : reactor_(reactor),
      service_(service),
      gate_(gate),
      options_(options),
      incarnation_(reactor.secrets().next()),
      group_(options.group != nullptr
                 ? *options.group
                 : own_group_.emplace(reactor, options.admission, nullptr, options.connections)),
      memory_(group_, metrics_.memory_bytes),
      left_(reactor),
      accepting_(reactor, 1),
      // Each tenant's sure connections come on top of the limit for all.
      connections_(reactor, std::min<size_t>(2 * group_.connections.bounds().in_all,
                                             domain.endpoints_max())) {}

Server::~Server() { ROS2S_CHECK(closed_ && entrants_.empty()); }

Task<Result<std::unique_ptr<Server>>> Server::listen(Reactor& reactor, fabric::Domain& domain,
                                                     std::string address, Service& service,
                                                     Gate& gate, ServerOptions options,
                                                     Report& report) {
    std::unique_ptr<Server> server(new Server(reactor, domain, service, gate, options));
    fabric::PeerCheck& peer_check = *server;
    auto listener = co_await domain.listen(std::move(address),
                                           {.limits = options.limits(),
                                            .peer_check = &peer_check,
                                            .pending_peers = &server->group_.pending_peers},
                                           report);
    if (!listener) {
        server->closed_ = true;
        co_return fail(listener.error());
    }
    server->listener_ = std::move(*listener);
    co_await server->accepting_.spawn(accept(*server));
    co_return server;
}

// ---- the hello ------------------------------------------------------------------------------

std::unexpected<Error> Server::turn_away(const Guest& guest, const fabric::Peer& peer,
                                         Report& report, Error error, std::string why) {
    gate_.turned_away(guest, peer, error, why);
    return report.fail(error, std::move(why));
}

Result<Server::Entrant> Server::look_at(ConstBytes credential, const fabric::Peer& peer,
                                        Report& report) {
    const auto frame = decode_frame(credential);
    const bool is_hello = frame && frame->header.kind == Kind::hello;
    const auto hello = is_hello ? decode_hello(frame->body) : fail(Code::corrupt);
    constexpr uint16_t version = FrameHeader::current_version;
    const bool other_version =
        (!frame && frame.error().code == Code::bad_version) ||
        (hello && (version < hello->version_least || version > hello->version_most));
    if (other_version) {
        metrics_.refused_version.add();
        return turn_away({}, peer, report, {.code = Code::bad_version, .detail = version},
                         fmt::format("this server supports only version {} of the protocol: use "
                                     "the same release on both sides",
                                     version));
    }
    if (!hello) {
        metrics_.malformed.add();
        return turn_away({}, peer, report, {.code = Code::corrupt},
                         "the client's first message is not a hello: do both sides run the same "
                         "release?");
    }
    if (hello->service != service_.number()) {
        return turn_away(
            {}, peer, report, {.code = Code::unsupported, .detail = hello->service},
            fmt::format(
                "the client requests the {}, and this server is the {}: is this the right address?",
                service_name(hello->service), service_name(service_.number())));
    }
    // The ticket stays valid.
    if (connections_.running() + entrants_.size() >= connections_.limit()) {
        metrics_.refused_busy.add();
        return turn_away(
            {}, peer, report, {.code = Code::busy},
            fmt::format("this listener has reached its limit of {} connections: try again later",
                        connections_.limit()));
    }
    const auto guest = gate_.admit(*hello, peer);
    if (!guest) {
        metrics_.refused_ticket.add();
        return report.fail(guest.error(),
                           "this connection was refused: its ticket is not valid here; request "
                           "a new one from the control plane");
    }
    auto share = group_.connections.take(counted_for(*guest, peer));
    if (!share) {
        metrics_.refused_busy.add();
        group_.admission.count_refusal(guest->tenant);
        const auto refused = turn_away(*guest, peer, report, {.code = Code::busy},
                                       at_limit(group_.connections, share.error(), *guest, peer));
        gate_.left(*guest);
        return refused;
    }
    return Entrant{.guest = *guest, .share = std::move(*share)};
}

fabric::PeerCheck::Verdict Server::admit(uint64_t session, ConstBytes credential,
                                         const fabric::Peer& peer) {
    Report report;
    auto entrant = look_at(credential, peer, report);
    if (!entrant) return {.admitted = false, .said = failure_frame(entrant.error(), report.text())};
    const Guest guest = entrant->guest;
    entrant->line =
        std::make_unique<admission::Line>(group_.admission, guest.tenant, guest.session);
    // Only frames of this connection carry the number. It reveals nothing about other connections.
    const auto number = static_cast<uint32_t>(reactor_.secrets().next());
    entrant->number = number;
    const bool is_new = entrants_.emplace(session, std::move(*entrant)).second;
    ROS2S_CHECK(is_new);
    std::array<std::byte, welcome_bytes> memory;
    FrameHeader header;
    header.kind = Kind::welcome;
    header.session = number;
    return {.admitted = true,
            .said = make_frame(header,
                               encode(WelcomeBody{.requests_max = options_.requests_max,
                                                  .inline_reply_max = options_.inline_reply_bytes,
                                                  .payload_bytes_max = options_.payload_bytes_max,
                                                  .incarnation = incarnation_},
                                      memory)),
            .tenant = guest.tenant};
}

void Server::withdraw(uint64_t session) noexcept {
    const auto entrant = entrants_.extract(session);
    ROS2S_CHECK(!entrant.empty());
    gate_.left(entrant.mapped().guest);
}

// ---- connections ----------------------------------------------------------------------------

Task<> Server::accept(Server& self) {
    while (true) {
        auto accepted = co_await self.listener_->accept(self.closing_.token());
        if (!accepted) co_return;
        auto entrant = self.entrants_.extract((*accepted)->session());
        ROS2S_CHECK(!entrant.empty());
        co_await self.connections_.spawn(
            serve_connection(self, std::move(*accepted), std::move(entrant.mapped())));
    }
}

Task<> Server::serve_connection(Server& self, std::unique_ptr<fabric::Endpoint> endpoint,
                                Entrant entrant) {
    ServerConnection connection(self, std::move(endpoint), entrant.guest, std::move(entrant.line),
                                entrant.number);
    if (entrant.ended || self.abandoned_) connection.abandon();
    self.all_.push_back(&connection);
    self.metrics_.connections.add();
    co_await connection.run(self.closing_.token());
    self.metrics_.connections.subtract();
    std::erase(self.all_, &connection);
    self.left_.wake_all();
}

void Server::abandon_session(uint64_t session) {
    for (auto& [id, entrant] : entrants_) {
        if (entrant.guest.session == session) entrant.ended = true;
    }
    for (ServerConnection* each : all_) {
        if (each->guest().session == session) each->abandon();
    }
}

Task<> Server::end_session(uint64_t session) {
    abandon_session(session);
    const auto of_session = [session](const ServerConnection* each) {
        return each->guest().session == session;
    };
    while (std::ranges::any_of(all_, of_session)) co_await left_;
}

void Server::abandon() {
    abandoned_ = true;
    for (ServerConnection* each : all_) each->abandon();
}

Task<> Server::close() {
    closing_.request_stop();
    co_await accepting_.join();
    if (!std::exchange(closed_, true)) co_await listener_->close();
    co_await connections_.join();
}

}  // namespace ros2s::rpc
