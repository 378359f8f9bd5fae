// Set-up: the TLS handshake, then hellos in both directions, then a second hello of the listener
// with its limits. Everything after the handshake is encrypted, also the ticket.
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>

#include "ros2s/base/audit_event.h"
#include "ros2s/fabric/socket/socket_listener.h"
#include "ros2s/fabric/tls/tls.h"
#include "ros2s/runtime/ring.h"
#include "tls_stream.h"
#include "tls_wire.h"

namespace ros2s::fabric::tls {
namespace {

const std::string provider_name = "tls";

class TlsDomain final : public SocketDomain {
  public:
    TlsDomain(Reactor& reactor, Options options, std::unique_ptr<SecureSockets> secure,
              std::unique_ptr<Sockets> sockets)
        : SocketDomain(reactor, provider_name, Addresses::network),
          options_(std::move(options)),
          secure_(std::move(secure)),
          sockets_(std::move(sockets)) {}
    ~TlsDomain() override { ROS2S_CHECK(sockets_ == nullptr); }

    Task<> close() override {
        if (sockets_ == nullptr) co_return;
        co_await sockets_->close();
        sockets_.reset();
    }

  private:
    Task<Result<std::unique_ptr<Stream>>> begin(Reactor& reactor, int fd, PendingPeer& pending,
                                                StopToken stop) override;
    // Returns true if a peer that has just connected uses another provider's protocol, and was
    // notified.
    Task<Result<bool>> is_of_another(int fd, StopToken stop);
    // Errors are in the report, or those of the stream that it has made.
    Task<Result<>> shake_hands(int fd, std::unique_ptr<TlsStream>& stream, PendingPeer& pending,
                               StopToken stop, Report& report);
    // One line in the log.
    void say_refused(PendingPeer& pending, std::string_view why) const;
    Task<Result<std::unique_ptr<Endpoint>>> finish(Admitted peer, Limits limits,
                                                   StopToken stop) override;
    Task<Result<std::unique_ptr<Endpoint>>> handshake(std::string address,
                                                      const ConnectOptions& options, StopToken stop,
                                                      Report& report) override;
    Task<Result<Hello>> ask(TlsStream& stream, std::string address, const ConnectOptions& options,
                            StopToken stop, Report& report);
    [[nodiscard]] std::unique_ptr<Endpoint> make_endpoint(Descriptor socket, TlsStream& stream,
                                                          Limits limits, const Hello& peer,
                                                          uint64_t session, bool initiates) {
        PacketConnection packet_session{.provider = provider_name,
                                        .domain = id_,
                                        .session = session,
                                        .peer = peer,
                                        .peer_name = peer_at(socket.get(), provider_name).name,
                                        .initiates = initiates};
        auto wire = std::make_unique<TlsWire>(*sockets_, std::move(socket), stream.take());
        return std::make_unique<PacketEndpoint>(reactor_, counters_, sockets_->flusher(), limits,
                                                std::move(packet_session), std::move(wire));
    }

    const Options options_;
    std::unique_ptr<SecureSockets> secure_;
    std::unique_ptr<Sockets> sockets_;
};

// Each step may cost a signature and its verification, some 0.2 to 1 ms, for a peer that has shown
// nothing yet. The first one also takes in files that have changed.
Task<Result<>> TlsDomain::shake_hands(int fd, std::unique_ptr<TlsStream>& stream,
                                      PendingPeer& pending, StopToken stop, Report& report) {
    while (true) {
        ROS2S_CO_TRY(co_await pending.begin_step(stop));
        Result<bool> done = false;
        if (stream == nullptr) {
            auto secure = secure_->accept(fd, report);
            if (secure) {
                stream = std::make_unique<TlsStream>(reactor_, fd, std::move(*secure));
            } else {
                done = fail(secure.error());
            }
        }
        if (done) done = stream->step();
        co_await pending.end_step();
        if (!done) co_return fail(done.error());
        if (*done) co_return Result<>{};
        ROS2S_CO_TRY(co_await stream->wait_after_step(stop));
    }
}

void TlsDomain::say_refused(PendingPeer& pending, std::string_view why) const {
    const auto left_out = pending.take_line();
    if (!left_out) return;
    const Peer& peer = pending.peer;
    options_.log.warning(
        audit_line({.subject = "",
                    .peer = peer.name,
                    .session = 0U,
                    .action = AuditAction::connect,
                    .object = AuditObject{},
                    .decision = AuditDecision::refused,
                    .reason = Error{.code = Code::denied},
                    .text = fmt::format("{} was refused before its hello: {}", peer.name, why)},
                   *left_out));
}

// A hello without TLS is answered without TLS, so that the peer learns what its mistake is.
Task<Result<bool>> TlsDomain::is_of_another(int fd, StopToken stop) {
    const auto polled = co_await reactor_.ring()->poll(fd, POLLIN | POLLRDHUP, stop);
    if (!polled) co_return fail(polled.error());
    uint32_t magic = 0;
    const ssize_t got = ::recv(fd, &magic, sizeof magic, MSG_PEEK | MSG_DONTWAIT);
    if (got != sizeof magic || magic != Hello::magic_value) co_return false;
    PlainStream plain(reactor_, fd);
    std::array<std::byte, sizeof(Hello)> hello{};
    ROS2S_CO_TRY(co_await plain.receive(hello, stop));
    Hello answer{.answer = Answer::other_provider};
    answer.set_provider(provider_name);
    answer.seal();
    plain.send_now(object_bytes(answer));
    co_return true;
}

Task<Result<std::unique_ptr<Stream>>> TlsDomain::begin(Reactor& /*reactor*/, int fd,
                                                       PendingPeer& pending, StopToken stop) {
    const auto refuse = [&](const Error& error, const std::string& why) {
        say_refused(pending, !why.empty() ? why
                             : error.code == Code::disconnected
                                 ? "it disconnected during the TLS handshake"
                                 : "it did not finish the TLS handshake in time");
        return fail(error);
    };
    const auto of_another = co_await is_of_another(fd, stop);
    if (!of_another) co_return refuse(of_another.error(), {});
    if (*of_another) co_return refuse({Code::unsupported}, "it uses another provider, without TLS");
    Report report;
    std::unique_ptr<TlsStream> stream;
    const auto shaken = co_await shake_hands(fd, stream, pending, stop, report);
    if (!shaken) {
        const std::string why = stream != nullptr ? stream->secure().why() : std::string();
        co_return refuse(shaken.error(), why.empty() ? report.text() : "TLS: " + why);
    }
    pending.peer.subject = stream->secure().peer_subject();
    co_return stream;
}

// For admitted peers only.
Task<Result<std::unique_ptr<Endpoint>>> TlsDomain::finish(Admitted peer, Limits limits,
                                                          StopToken stop) {
    // begin() has made it.
    auto& stream = static_cast<TlsStream&>(*peer.stream);
    limits = PacketEndpoint::normalized(limits);
    Hello ours = PacketEndpoint::introduce(*this, limits);
    ours.session = peer.session;
    ours.seal();
    ROS2S_CO_TRY(co_await stream.send(object_bytes(ours), stop));
    co_return make_endpoint(std::move(peer.socket), stream, limits, peer.hello, ours.session, true);
}

Task<Result<Hello>> TlsDomain::ask(TlsStream& stream, std::string address,
                                   const ConnectOptions& options, StopToken stop, Report& report) {
    for (Result<bool> done = stream.step(); !done || !*done; done = stream.step()) {
        if (!done) co_return fail(done.error());
        ROS2S_CO_TRY(co_await stream.wait_after_step(stop));
    }
    const Limits limits = PacketEndpoint::normalized(options.limits);
    ROS2S_CO_TRY(co_await ask_admission(stream, PacketEndpoint::introduce(*this, limits), address,
                                        options, stop, report));
    std::array<std::byte, sizeof(Hello)> bytes{};
    ROS2S_CO_TRY(co_await stream.receive(bytes, stop));
    const auto answer = Hello::decode(bytes);
    ROS2S_CO_TRY(check_answer(answer, address, provider_name, report));
    co_return answer;
}

Task<Result<std::unique_ptr<Endpoint>>> TlsDomain::handshake(std::string address,
                                                             const ConnectOptions& options,
                                                             StopToken stop, Report& report) {
    ROS2S_CO_TRY_ASSIGN(Descriptor socket, co_await connect_to(reactor_, address, stop, report));
    ROS2S_CO_TRY_ASSIGN(auto secure, secure_->connect(socket.get(), options_.server_name, report));
    TlsStream stream(reactor_, socket.get(), std::move(secure));
    const auto hello = co_await ask(stream, address, options, stop, report);
    if (!hello) {
        if (!stream.secure().why().empty()) {
            report.say(
                "{} and this program do not accept each other (TLS: {}): both need certificates of "
                "one authority, the server's for '{}'; here are {} and {}",
                address, stream.secure().why(), options_.server_name,
                options_.identity.authority_file, options_.identity.certificate_file);
        }
        co_return fail(hello.error());
    }
    co_return make_endpoint(std::move(socket), stream, PacketEndpoint::normalized(options.limits),
                            *hello, hello->session, false);
}

}  // namespace

Result<std::unique_ptr<Domain>> open_domain(Reactor& reactor, Options options, Report& report) {
    ROS2S_CHECK(reactor.ring() != nullptr);
    ROS2S_TRY_ASSIGN(auto secure, open_secure_sockets(options.identity, options.log, report));
    ROS2S_TRY_ASSIGN(auto sockets, Sockets::open(reactor));
    return std::make_unique<TlsDomain>(reactor, std::move(options), std::move(secure),
                                       std::move(sockets));
}

}  // namespace ros2s::fabric::tls
