#include "control_client.h"

#include "client_call.h"
#include "client_replies.h"
#include "ros2s/control/files.pb.h"
#include "ros2s/control/server.pb.h"
#include "ros2s/control/session.pb.h"
#include "tls.h"

namespace ros2s::control {
namespace {

// A server may send any number; in nanoseconds it could overflow.
Duration from_ms(uint64_t count) {
    constexpr uint64_t most = uint64_t{1} << 40;
    return std::chrono::milliseconds(std::min(count, most));
}

Result<GivenTicket> decode(const v1::Ticket& ticket, Report& report) {
    auto parsed = session::Ticket::parse(ticket.ticket());
    if (!parsed) return malformed("ticket", report);
    return GivenTicket{*parsed, from_ms(ticket.lifetime_ms())};
}

constexpr std::chrono::milliseconds reconnect_pause_max{2000};

grpc::ChannelArguments arguments_of(const ClientOptions& options) {
    grpc::ChannelArguments arguments;
    if (!options.server_name.empty()) arguments.SetSslTargetNameOverride(options.server_name);
    arguments.SetMaxReceiveMessageSize(static_cast<int>(options.message_bytes_max));
    // A call is sent once, because repeating it could do it twice.
    arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
    // Reconnects soon to a server that was away; gRPC would wait up to two minutes.
    arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
    arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 5000);  // the time for one attempt
    arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, reconnect_pause_max.count());
    // Each client has its own connection. Otherwise clients of the same server would share one.
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return arguments;
}

// The interval at which a client checks whether its certificate was renewed.
constexpr Duration renewal_glance = std::chrono::seconds(1);

}  // namespace

Result<std::unique_ptr<ControlClient>> ControlClient::create(Reactor& reactor,
                                                             ClientOptions options,
                                                             Report& report) {
    if (options.address.empty()) {
        return report.fail(Code::invalid,
                           "the control plane's address is empty; give HOST:PORT or unix:PATH");
    }
    auto parts = std::make_unique<Parts>(reactor, std::move(options));
    ROS2S_TRY(parts->renew(report));
    return std::unique_ptr<ControlClient>(new ControlClient(std::move(parts)));
}

ControlClient::ControlClient(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

ControlClient::~ControlClient() = default;

Result<> ControlClient::Parts::renew(Report& report) {
    if (channel && reactor.now() < next_look) return {};
    next_look = reactor.now() + renewal_glance;
    pki::Pem unused;
    if (identity.look(unused) != pki::WatchedIdentity::Look::changed && channel) return {};
    ROS2S_TRY_ASSIGN(
        channel, open_channel(options.address, options.identity, arguments_of(options), report));
    return {};
}

void ControlClient::Parts::connect_again() {
    if (reactor.now() < next_connection) return;
    next_connection = reactor.now() + reconnect_pause_max;
    grpc::experimental::ChannelResetConnectionBackoff(channel.get());
}

Task<Result<ServerFacts>> ControlClient::query_server(const Call& call, Report& report) {
    ROS2S_CO_TRY_ASSIGN(const auto reply, co_await ask<v1::QueryServerReply>(
                                              *parts_, call, v1::QueryServerRequest(), report));
    ServerFacts facts{.program = reply.program(),
                      .serving = reply.serving(),
                      .sessions = reply.sessions(),
                      .data = {},
                      .absent = {}};
    for (const v1::DataAddress& each : reply.data()) {
        facts.data.emplace_back(each.provider(), each.address());
    }
    for (const v1::AbsentPool& each : reply.absent()) {
        facts.absent.emplace_back(each.pool(), WallTime(Duration(each.since_ns())));
    }
    co_return facts;
}

Task<Result<OpenedSession>> ControlClient::open_session(const Call& call, SessionOptions wanted,
                                                        Report& report) {
    v1::OpenSessionRequest request;
    request.set_client(bytes_of(wanted.client));
    request.set_purpose(wanted.purpose == session::Purpose::store ? v1::PURPOSE_STORE
                                                                  : v1::PURPOSE_LINK);
    request.set_pool(wanted.pool);
    request.set_program(wanted.program);
    for (const std::string& provider : wanted.providers) request.add_providers(provider);
    request.set_shows_capability(wanted.holder != nullptr);
    ROS2S_CO_TRY_ASSIGN(const auto reply, co_await ask<v1::OpenSessionReply>(
                                              *parts_, call, std::move(request), report));
    // A false server must not choose a transport that this program does not trust.
    if (std::ranges::find(wanted.providers, reply.provider()) == wanted.providers.end()) {
        co_return malformed("provider", report);
    }
    GivenTicket ticket;
    if (wanted.holder == nullptr) {
        ROS2S_CO_TRY_ASSIGN(ticket, decode(reply.ticket(), report));
    } else if (reply.nonce().size() != capability::nonce_bytes) {
        co_return malformed("nonce", report);
    }
    co_return OpenedSession{.id = {reply.session()},
                            .ticket = ticket,
                            .nonce = reply.nonce(),
                            .provider = reply.provider(),
                            .address = reply.address(),
                            .idle_max = from_ms(reply.idle_ms())};
}

Task<Result<Duration>> ControlClient::keep_alive(const Call& call, session::SessionId id,
                                                 Report& report) {
    v1::KeepAliveRequest request;
    request.set_session(id.value);
    ROS2S_CO_TRY_ASSIGN(const auto reply, co_await ask<v1::KeepAliveReply>(
                                              *parts_, call, std::move(request), report));
    co_return from_ms(reply.idle_ms());
}

Task<Result<GivenTicket>> ControlClient::issue_ticket(const Call& call, session::SessionId id,
                                                      Report& report) {
    v1::IssueTicketRequest request;
    request.set_session(id.value);
    ROS2S_CO_TRY_ASSIGN(const auto reply, co_await ask<v1::IssueTicketReply>(
                                              *parts_, call, std::move(request), report));
    co_return decode(reply.ticket(), report);
}

Task<Result<ShownReply>> ControlClient::show_capability(const Call& call, session::SessionId id,
                                                        capability::Chain chain, std::string proof,
                                                        Report& report) {
    v1::ShowCapabilityRequest request;
    request.set_session(id.value);
    for (std::string& link : chain) request.add_chain(std::move(link));
    request.set_proof(std::move(proof));
    ROS2S_CO_TRY_ASSIGN(const auto reply, co_await ask<v1::ShowCapabilityReply>(
                                              *parts_, call, std::move(request), report));
    ShownReply shown{.ticket = {}, .nonce = reply.nonce()};
    if (shown.nonce.size() != capability::nonce_bytes) co_return malformed("nonce", report);
    if (reply.has_ticket()) {
        ROS2S_CO_TRY_ASSIGN(shown.ticket, decode(reply.ticket(), report));
    }
    co_return shown;
}

Task<Result<>> ControlClient::close_session(const Call& call, session::SessionId id,
                                            Report& report) {
    v1::CloseSessionRequest request;
    request.set_session(id.value);
    ROS2S_CO_TRY(co_await ask<v1::CloseSessionReply>(*parts_, call, std::move(request), report));
    co_return Result<>{};
}

Task<Result<MountedAt>> ControlClient::mount(const Call& call, session::SessionId id,
                                             std::string container, MountAs how, Report& report) {
    v1::MountRequest request;
    request.set_session(id.value);
    request.set_container(std::move(container));
    request.set_read_only(how.read_only);
    request.set_durable(how.durable);
    request.set_alone_as(how.exclusive_as);
    ROS2S_CO_TRY_ASSIGN(const auto reply,
                        co_await ask<v1::MountReply>(*parts_, call, std::move(request), report));
    co_return MountedAt{.id = {reply.mount()},
                        .storage = reply.storage(),
                        .lends_leases = reply.lends_leases(),
                        .squashes_root = reply.squashes_root(),
                        .is_deferred = reply.is_deferred(),
                        .is_exclusive = reply.is_alone()};
}

Task<Result<>> ControlClient::unmount(const Call& call, session::SessionId id,
                                      session::MountId mount, Report& report) {
    v1::UnmountRequest request;
    request.set_session(id.value);
    request.set_mount(mount.value);
    ROS2S_CO_TRY(co_await ask<v1::UnmountReply>(*parts_, call, std::move(request), report));
    co_return Result<>{};
}

}  // namespace ros2s::control
