#include "control_client.h"

#include <algorithm>

#include "client_call.h"
#include "ros2s/control/capabilities.pb.h"
#include "ros2s/control/files.pb.h"
#include "ros2s/control/leases.pb.h"
#include "ros2s/control/server.pb.h"
#include "ros2s/control/session.pb.h"
#include "ros2s/control/store.pb.h"
#include "ros2s/control/tenants.pb.h"
#include "ros2s/pki/signature.h"
#include "tls.h"

namespace ros2s::control {
namespace {

template <size_t N>
bool read_bytes(const std::string& bytes, std::array<uint8_t, N>& into) {
    if (bytes.size() != N) return false;
    std::ranges::copy(bytes, into.begin());
    return true;
}

std::string bytes_of(const Uuid& uuid) {
    return {reinterpret_cast<const char*>(uuid.bytes.data()), uuid.bytes.size()};
}

// Replies are checked, too: the server may be a foreign one.
std::unexpected<Error> malformed(std::string_view what, Report& report) {
    return report.fail(Code::bad_version,
                       "the server's reply has no valid {}; use programs of one version", what);
}

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

Result<object::ContainerRecord> decode(const v1::Container& container, Report& report) {
    object::ContainerRecord record;
    if (!read_bytes(container.uuid(), record.id.uuid.bytes) ||
        !object::is_valid_label(container.label())) {
        return malformed("container", report);
    }
    record.properties = {
        .label = container.label(),
        .chunk_bytes = container.chunk_bytes(),
        .owner = container.owner(),
        .caps = {.bytes = container.cap_bytes(), .values = container.cap_values()}};
    record.used = {.bytes = container.used_bytes(), .values = container.used_values()};
    record.created = WallTime(Duration(container.created_ns()));
    return record;
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

// The time that a change of a container waits for a server that existed when it was sent.
constexpr Duration patience = std::chrono::seconds(30);
constexpr Duration pause_between = std::chrono::milliseconds(20);

// A creation or destruction of a container.
struct Change {
    std::string pool;
    capability::Use use;  // what a delegated DPU needs for it
    const Message& request;
    v1::ContainerChange& name;  // of the request
    Message& reply;
};

// Hands a delegated DPU what it needs for the change. A restarted one has another key, and nothing
// of what was handed to the earlier one.
Task<Result<>> delegate_for(ControlClient& client, const Call& call, const Change& change,
                            Report& report) {
    Report said;
    const auto done = co_await client.delegate(call, change.pool, change.use, said);
    if (done) co_return Result<>{};
    const bool may_be_gone = done.error().code == Code::denied && change.name.repeated() &&
                             change.use.rights.has(rights::Right::destroy);
    if (!may_be_gone) co_return report.fail(done.error(), said.text());
    // The owner of a container that is gone has no right to destroy it any more. Whoever may see
    // the pool's containers finds the reply that was stored for it.
    capability::Use seeing = change.use;
    seeing.rights = {};
    ROS2S_CO_TRY(co_await client.delegate(call, change.pool, std::move(seeing), report));
    co_return Result<>{};
}

// Sends it under that name until it is answered.
Task<Result<>> send_change(ControlClient& client, const Call& call, const Change& change,
                           UpdateName as, Report& report) {
    ControlClient::Parts& parts = client.parts();
    // If there was never a server, fails at once.
    if (!parts.has_found_server) {
        ROS2S_CO_TRY(
            co_await ask<v1::QueryServerReply>(parts, call, v1::QueryServerRequest(), report));
        parts.has_found_server = true;
    }
    change.name.set_client(bytes_of(as.client));
    change.name.set_slot(as.slot);
    change.name.set_sequence(as.sequence);
    change.name.set_repeated(call.repeated);
    for (const Time until = parts.reactor.now() + patience;;) {
        Report attempt;
        Result<> done = co_await delegate_for(client, call, change, attempt);
        if (done) {
            done = co_await exchange(parts, call, change.request, change.reply, attempt);
            change.name.set_repeated(true);
        }
        // A server that stops cancels its unfinished calls.
        const bool lost = !done && (done.error().code == Code::disconnected ||
                                    done.error().code == Code::cancelled);
        const bool again = lost && call.check(parts.reactor) && parts.reactor.now() < until &&
                           co_await sleep_for(parts.reactor, pause_between, call.stop);
        if (again) continue;
        if (!done) co_return report.fail(done.error(), attempt.text());
        co_return done;
    }
}

// Creates or destroys a container once, under the call's name or, without one, under a name of this
// client. The name is the same however often it is sent.
Task<Result<>> change_container(ControlClient& client, const Call& call, Change change,
                                Report& report) {
    if (call.update != nullptr) {
        co_return co_await send_change(client, call, change, *call.update, report);
    }
    UpdateSlots& names = client.parts().changes;
    co_await names.wait();
    const auto slot = names.take();
    co_return co_await send_change(client, call, change, slot.id(), report);
}

}  // namespace

class GrpcClient final : public ControlClient {
  public:
    explicit GrpcClient(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
    Task<Result<ServerFacts>> query_server(const Call& call, Report& report) override;
    Task<Result<OpenedSession>> open_session(const Call& call, SessionOptions wanted,
                                             Report& report) override;
    Task<Result<Duration>> keep_alive(const Call& call, session::SessionId id,
                                      Report& report) override;
    Task<Result<GivenTicket>> issue_ticket(const Call& call, session::SessionId id,
                                           Report& report) override;
    Task<Result<ShownReply>> show_capability(const Call& call, session::SessionId id,
                                             capability::Chain chain, std::string proof,
                                             Report& report) override;
    Task<Result<>> close_session(const Call& call, session::SessionId id, Report& report) override;
    Task<Result<uint64_t>> revoke_capability(const Call& call, std::string pool, std::string tenant,
                                             Uuid capability, Report& report) override;
    Task<Result<std::vector<CapabilityInUse>>> list_capabilities(const Call& call, std::string pool,
                                                                 std::string tenant,
                                                                 Report& report) override;
    Task<Result<>> rotate_capability_key(const Call& call, std::string pool,
                                         Report& report) override;
    Task<Result<std::optional<Duration>>> delegate(const Call& call, std::string pool,
                                                   capability::Use use, Report& report) override;
    Task<Result<Capabilities::Description>> describe_capabilities(const Call& call,
                                                                  std::string pool,
                                                                  Report& report) override;
    Task<Result<std::string>> issue_capability(const Call& call, std::string pool,
                                               capability::CapabilityRequest wanted,
                                               Report& report) override;
    Task<Result<>> hand_over(const Call& call, std::string pool, capability::Chain chain,
                             Report& report) override;
    Task<Result<std::string>> relay_capability_request(const Call& call, std::string pool,
                                                       SignedCapabilityRequest wanted,
                                                       Report& report) override;
    Task<Result<std::vector<std::string>>> list_pools(const Call& call, Report& report) override;
    Task<Result<PoolFacts>> query_pool(const Call& call, std::string pool, Report& report) override;
    Task<Result<object::ContainerRecord>> create_container(const Call& call, std::string pool,
                                                           object::ContainerProperties properties,
                                                           fs::Owner owner,
                                                           Report& report) override;
    Task<Result<std::vector<object::ContainerRecord>>> list_containers(const Call& call,
                                                                       std::string pool,
                                                                       Report& report) override;
    Task<Result<object::ContainerRecord>> query_container(const Call& call, std::string pool,
                                                          std::string label,
                                                          Report& report) override;
    Task<Result<object::ContainerRecord>> set_container(const Call& call, std::string pool,
                                                        std::string label,
                                                        object::ContainerChange change,
                                                        Report& report) override;
    Task<Result<>> destroy_container(const Call& call, std::string pool, std::string label,
                                     Report& report) override;
    Task<Result<SeenLeases>> list_leases(const Call& call, std::string pool, std::string container,
                                         Report& report) override;
    Task<Result<>> evict_holder(const Call& call, std::string pool, std::string container,
                                std::string holder, Report& report) override;
    Task<Result<tenancy::SeenTenant>> change_tenant(const Call& call, std::string pool,
                                                    tenancy::Change what, std::string name,
                                                    config::Entries settings,
                                                    Report& report) override;
    Task<Result<ListedTenants>> list_tenants(const Call& call, std::string pool, uint64_t known,
                                             Report& report) override;
    Task<Result<MountedAt>> mount(const Call& call, session::SessionId id, std::string container,
                                  bool read_only, Report& report) override;
    Task<Result<>> unmount(const Call& call, session::SessionId id, session::MountId mount,
                           Report& report) override;
    [[nodiscard]] Parts& parts() override { return *parts_; }

  private:
    std::unique_ptr<Parts> parts_;
};

Result<std::unique_ptr<ControlClient>> ControlClient::create(Reactor& reactor,
                                                             ClientOptions options,
                                                             Report& report) {
    if (options.address.empty()) {
        return report.fail(Code::invalid,
                           "the control plane's address is empty; give HOST:PORT or unix:PATH");
    }
    auto parts = std::make_unique<Parts>(reactor, std::move(options));
    ROS2S_TRY(parts->renew(report));
    return std::make_unique<GrpcClient>(std::move(parts));
}

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

Task<Result<ServerFacts>> GrpcClient::query_server(const Call& call, Report& report) {
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

Task<Result<OpenedSession>> GrpcClient::open_session(const Call& call, SessionOptions wanted,
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

Task<Result<Duration>> GrpcClient::keep_alive(const Call& call, session::SessionId id,
                                              Report& report) {
    v1::KeepAliveRequest request;
    request.set_session(id.value);
    ROS2S_CO_TRY_ASSIGN(const auto reply, co_await ask<v1::KeepAliveReply>(
                                              *parts_, call, std::move(request), report));
    co_return from_ms(reply.idle_ms());
}

Task<Result<GivenTicket>> GrpcClient::issue_ticket(const Call& call, session::SessionId id,
                                                   Report& report) {
    v1::IssueTicketRequest request;
    request.set_session(id.value);
    ROS2S_CO_TRY_ASSIGN(const auto reply, co_await ask<v1::IssueTicketReply>(
                                              *parts_, call, std::move(request), report));
    co_return decode(reply.ticket(), report);
}

Task<Result<>> GrpcClient::close_session(const Call& call, session::SessionId id, Report& report) {
    v1::CloseSessionRequest request;
    request.set_session(id.value);
    ROS2S_CO_TRY(co_await ask<v1::CloseSessionReply>(*parts_, call, std::move(request), report));
    co_return Result<>{};
}

// ---- capabilities

Task<Result<ShownReply>> GrpcClient::show_capability(const Call& call, session::SessionId id,
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

Task<Result<uint64_t>> GrpcClient::revoke_capability(const Call& call, std::string pool,
                                                     std::string tenant, Uuid capability,
                                                     Report& report) {
    v1::ChangeTenantRequest request;
    request.set_pool(std::move(pool));
    request.set_kind(v1::ChangeTenantRequest::REVOKE_CAPABILITY);
    request.set_name(std::move(tenant));
    request.set_capability(bytes_of(capability));
    ROS2S_CO_TRY_ASSIGN(const auto reply, co_await ask<v1::ChangeTenantReply>(
                                              *parts_, call, std::move(request), report));
    co_return reply.sessions();
}

Task<Result<std::vector<CapabilityInUse>>> GrpcClient::list_capabilities(const Call& call,
                                                                         std::string pool,
                                                                         std::string tenant,
                                                                         Report& report) {
    v1::ListCapabilitiesRequest request;
    request.set_pool(std::move(pool));
    request.set_tenant(std::move(tenant));
    ROS2S_CO_TRY_ASSIGN(const auto reply, co_await ask<v1::ListCapabilitiesReply>(
                                              *parts_, call, std::move(request), report));
    std::vector<CapabilityInUse> all;
    for (const auto& each : reply.in_use()) {
        CapabilityInUse& into = all.emplace_back();
        if (!read_bytes(each.first(), into.first.bytes) ||
            !read_bytes(each.last(), into.last.bytes)) {
            co_return malformed("capability", report);
        }
        into.use.rights.bits = static_cast<uint8_t>(each.rights() & rights::every_right.bits);
        into.use.directories = each.directories();
        into.use.container.text = each.container();
        into.shown_by = each.shown_by();
        into.expires = WallTime(Duration(each.expires_ns()));
    }
    co_return all;
}

Task<Result<>> GrpcClient::rotate_capability_key(const Call& call, std::string pool,
                                                 Report& report) {
    v1::ChangeTenantRequest request;
    request.set_pool(std::move(pool));
    request.set_kind(v1::ChangeTenantRequest::ROTATE);
    ROS2S_CO_TRY(co_await ask<v1::ChangeTenantReply>(*parts_, call, std::move(request), report));
    co_return Result<>{};
}

Task<Result<std::string>> GrpcClient::relay_capability_request(const Call& call, std::string pool,
                                                               SignedCapabilityRequest wanted,
                                                               Report& report) {
    v1::IssueCapabilityRequest request;
    request.set_pool(std::move(pool));
    request.set_wanted(std::move(wanted.wanted));
    request.set_certificates(std::move(wanted.certificates));
    request.set_signature(std::move(wanted.signature));
    ROS2S_CO_TRY_ASSIGN(const auto reply, co_await ask<v1::IssueCapabilityReply>(
                                              *parts_, call, std::move(request), report));
    co_return reply.capability();
}

Task<Result<std::string>> GrpcClient::issue_capability(const Call& call, std::string pool,
                                                       capability::CapabilityRequest wanted,
                                                       Report& report) {
    const pki::Pem files = pki::read_pem(parts_->options.identity);
    std::string bytes = capability::encode(wanted);
    ROS2S_CO_TRY_ASSIGN(std::string signature,
                        pki::sign(files.key, capability::request_message(bytes, pool), report));
    co_return co_await relay_capability_request(call, std::move(pool),
                                                {.wanted = std::move(bytes),
                                                 .certificates = files.certificate,
                                                 .signature = std::move(signature)},
                                                report);
}

Task<Result<>> GrpcClient::hand_over(const Call& call, std::string pool, capability::Chain chain,
                                     Report& report) {
    v1::DelegateCapabilityRequest request;
    request.set_pool(std::move(pool));
    for (std::string& link : chain) request.add_chain(std::move(link));
    ROS2S_CO_TRY(
        co_await ask<v1::DelegateCapabilityReply>(*parts_, call, std::move(request), report));
    co_return Result<>{};
}

Task<Result<Capabilities::Description>> GrpcClient::describe_capabilities(const Call& call,
                                                                          std::string pool,
                                                                          Report& report) {
    v1::DescribeCapabilitiesRequest request;
    request.set_pool(std::move(pool));
    ROS2S_CO_TRY_ASSIGN(const auto reply, co_await ask<v1::DescribeCapabilitiesReply>(
                                              *parts_, call, std::move(request), report));
    Capabilities::Description known;
    if (!read_bytes(reply.audience(), known.audience.bytes)) co_return malformed("pool", report);
    if (reply.delegate().empty()) co_return known;
    if (!read_bytes(reply.delegate(), known.delegate.emplace())) {
        co_return malformed("key of capabilities", report);
    }
    co_return known;
}

Task<Result<std::optional<Duration>>> GrpcClient::delegate(const Call& call, std::string pool,
                                                           capability::Use use, Report& report) {
    auto& own_rights = parts_->own_rights;
    if (const auto found = own_rights.find(pool); found != own_rights.end()) {
        if (parts_->reactor.now() < found->second) co_return std::nullopt;
    }
    Report said;
    const auto known = co_await describe_capabilities(call, pool, said);
    // If a server has none, or refuses even this request, the call that follows gets the error.
    const bool is_final = known || known.error().code == Code::unsupported ||
                          known.error().code == Code::denied ||
                          known.error().code == Code::not_found;
    if (!is_final) co_return report.fail(known.error(), said.text());
    if (!known || !known->delegate) {
        if (own_rights.size() >= Parts::own_rights_max) own_rights.clear();
        const bool has_answered = known || known.error().code == Code::unsupported;
        if (has_answered) own_rights[pool] = parts_->reactor.now() + Parts::own_rights_for;
        co_return std::nullopt;
    }
    const capability::CapabilityRequest wanted{
        .use = std::move(use), .audience = known->audience, .holder = parts_->holder.shown()};
    ROS2S_CO_TRY_ASSIGN(std::string issued, co_await issue_capability(call, pool, wanted, report));
    auto narrower = capability::decode(issued);
    // The DPU passed it on. Only what was requested is handed over.
    if (!narrower || narrower->depth != 1 || narrower->holder != wanted.holder ||
        narrower->audience != wanted.audience || !wanted.use.covers(narrower->use)) {
        co_return malformed("capability", report);
    }
    narrower->depth = 2;
    narrower->id = any_uuid();
    narrower->issuer = wanted.holder;
    narrower->holder = *known->delegate;
    narrower->parent = capability::hash_of(issued);
    std::string second = capability::sign(*narrower, parts_->holder);
    ROS2S_CO_TRY(
        co_await hand_over(call, std::move(pool), {std::move(issued), std::move(second)}, report));
    const Duration life = narrower->expires - narrower->not_before - capability::clock_slack;
    co_return std::clamp<Duration>(life / 2, std::chrono::milliseconds(100), capability::life_max);
}

Task<Result<std::vector<std::string>>> GrpcClient::list_pools(const Call& call, Report& report) {
    ROS2S_CO_TRY_ASSIGN(const auto reply, co_await ask<v1::ListPoolsReply>(
                                              *parts_, call, v1::ListPoolsRequest(), report));
    co_return std::vector<std::string>(reply.pools().begin(), reply.pools().end());
}

Task<Result<PoolFacts>> GrpcClient::query_pool(const Call& call, std::string pool, Report& report) {
    ROS2S_CO_TRY(co_await delegate(call, pool, seeing_only(), report));
    v1::QueryPoolRequest request;
    request.set_pool(std::move(pool));
    ROS2S_CO_TRY_ASSIGN(const auto reply, co_await ask<v1::QueryPoolReply>(
                                              *parts_, call, std::move(request), report));
    co_return PoolFacts{
        .space = {.total_bytes = reply.total_bytes(), .free_bytes = reply.free_bytes()},
        .containers = reply.containers(),
        .path = reply.path()};
}

Task<Result<object::ContainerRecord>> GrpcClient::create_container(
    const Call& call, std::string pool, object::ContainerProperties properties, fs::Owner owner,
    Report& report) {
    capability::Use use{
        .rights = rights::Right::create, .directories = false, .container = {properties.label}};
    v1::CreateContainerRequest request;
    request.set_pool(pool);
    request.set_label(std::move(properties.label));
    request.set_chunk_bytes(properties.chunk_bytes);
    request.set_cap_bytes(properties.caps.bytes);
    request.set_cap_values(properties.caps.values);
    request.set_uid(owner.uid);
    request.set_gid(owner.gid);
    v1::CreateContainerReply reply;
    ROS2S_CO_TRY(co_await change_container(*this, call,
                                           {.pool = std::move(pool),
                                            .use = std::move(use),
                                            .request = request,
                                            .name = *request.mutable_change(),
                                            .reply = reply},
                                           report));
    co_return decode(reply.container(), report);
}

Task<Result<std::vector<object::ContainerRecord>>> GrpcClient::list_containers(const Call& call,
                                                                               std::string pool,
                                                                               Report& report) {
    ROS2S_CO_TRY(co_await delegate(call, pool, seeing_only(), report));
    v1::ListContainersRequest request;
    request.set_pool(std::move(pool));
    ROS2S_CO_TRY_ASSIGN(const auto reply, co_await ask<v1::ListContainersReply>(
                                              *parts_, call, std::move(request), report));
    std::vector<object::ContainerRecord> records;
    for (const v1::Container& each : reply.containers()) {
        if (each.uuid().empty() && object::is_valid_label(each.label())) {
            records.emplace_back().properties.label = each.label();
            continue;
        }
        ROS2S_CO_TRY_ASSIGN(auto record, decode(each, report));
        records.push_back(std::move(record));
    }
    co_return records;
}

Task<Result<object::ContainerRecord>> GrpcClient::query_container(const Call& call,
                                                                  std::string pool,
                                                                  std::string label,
                                                                  Report& report) {
    ROS2S_CO_TRY(co_await delegate(call, pool, seeing_only(), report));
    v1::QueryContainerRequest request;
    request.set_pool(std::move(pool));
    request.set_label(std::move(label));
    ROS2S_CO_TRY_ASSIGN(const auto reply, co_await ask<v1::QueryContainerReply>(
                                              *parts_, call, std::move(request), report));
    co_return decode(reply.container(), report);
}

Task<Result<object::ContainerRecord>> GrpcClient::set_container(const Call& call, std::string pool,
                                                                std::string label,
                                                                object::ContainerChange change,
                                                                Report& report) {
    v1::SetContainerRequest request;
    request.set_pool(std::move(pool));
    request.set_label(std::move(label));
    if (change.owner) request.set_owner(*change.owner);
    if (change.bytes) request.set_cap_bytes(*change.bytes);
    if (change.values) request.set_cap_values(*change.values);
    ROS2S_CO_TRY_ASSIGN(const auto reply, co_await ask<v1::SetContainerReply>(
                                              *parts_, call, std::move(request), report));
    co_return decode(reply.container(), report);
}

Task<Result<SeenLeases>> GrpcClient::list_leases(const Call& call, std::string pool,
                                                 std::string container, Report& report) {
    v1::ListLeasesRequest request;
    request.set_pool(std::move(pool));
    request.set_container(std::move(container));
    ROS2S_CO_TRY_ASSIGN(const auto reply, co_await ask<v1::ListLeasesReply>(
                                              *parts_, call, std::move(request), report));
    const auto time = [](uint64_t ns) { return Duration(static_cast<int64_t>(ns & INT64_MAX)); };
    SeenLeases seen;
    for (const auto& each : reply.holders()) {
        seen.holders.push_back({.name = each.holder(),
                                .container = each.container(),
                                .tenant = each.tenant(),
                                .from = each.from(),
                                .program = each.program(),
                                .session = each.session(),
                                .held = time(each.for_ns()),
                                .nodes = each.nodes(),
                                .recalls = each.recalls(),
                                .recalled = time(each.recalled_for_ns()),
                                .ends = each.ends()});
    }
    for (const auto& each : reply.barred()) {
        seen.barred.emplace_back(each.tenant(), time(each.remaining_ns()));
    }
    co_return seen;
}

Task<Result<>> GrpcClient::evict_holder(const Call& call, std::string pool, std::string container,
                                        std::string holder, Report& report) {
    v1::EvictHolderRequest request;
    request.set_pool(std::move(pool));
    request.set_container(std::move(container));
    request.set_holder(std::move(holder));
    ROS2S_CO_TRY(co_await ask<v1::EvictHolderReply>(*parts_, call, std::move(request), report));
    co_return Result<>{};
}

Task<Result<>> GrpcClient::destroy_container(const Call& call, std::string pool, std::string label,
                                             Report& report) {
    v1::DestroyContainerRequest request;
    request.set_pool(pool);
    request.set_label(label);
    v1::DestroyContainerReply reply;
    ROS2S_CO_TRY(co_await change_container(*this, call,
                                           {.pool = std::move(pool),
                                            .use = {.rights = rights::Right::destroy,
                                                    .directories = false,
                                                    .container = {std::move(label)}},
                                            .request = request,
                                            .name = *request.mutable_change(),
                                            .reply = reply},
                                           report));
    co_return Result<>{};
}

namespace {

Result<tenancy::SeenTenant> decode(const v1::Tenant& tenant, Report& report) {
    tenancy::SeenTenant seen{
        .tenant = {.name = tenant.name(),
                   .generation = tenant.generation(),
                   .first_generation = std::max<uint64_t>(tenant.first_generation(), 1),
                   .revoked = tenant.revoked(),
                   .settings = {tenant.settings().begin(), tenant.settings().end()}},
        .active = tenant.active()};
    seen.tenant.revocations = tenant.revocations();
    for (const auto& each : tenant.revoked_capabilities()) {
        Uuid id;
        tenancy::RevokedCapability revoked{.until = WallTime(Duration(each.until_ns()))};
        if (!read_bytes(each.id(), id.bytes) ||
            (!each.program().empty() && !read_bytes(each.program(), revoked.program.emplace()))) {
            return malformed("tenant", report);
        }
        seen.tenant.revoked_capabilities.emplace(id, revoked);
    }
    Report problem;
    const auto parsed = tenancy::parse_settings(seen.tenant, "a tenant", problem);
    if (!parsed) return malformed("tenant", report);
    return seen;
}

}  // namespace

Task<Result<tenancy::SeenTenant>> GrpcClient::change_tenant(const Call& call, std::string pool,
                                                            tenancy::Change what, std::string name,
                                                            config::Entries settings,
                                                            Report& report) {
    v1::ChangeTenantRequest request;
    request.set_pool(std::move(pool));
    request.set_kind(what == tenancy::Change::create   ? v1::ChangeTenantRequest::CREATE
                     : what == tenancy::Change::set    ? v1::ChangeTenantRequest::SET
                     : what == tenancy::Change::revoke ? v1::ChangeTenantRequest::REVOKE
                                                       : v1::ChangeTenantRequest::REMOVE);
    request.set_name(std::move(name));
    for (auto& [key, text] : settings) (*request.mutable_settings())[key] = std::move(text);
    ROS2S_CO_TRY_ASSIGN(const auto reply, co_await ask<v1::ChangeTenantReply>(
                                              *parts_, call, std::move(request), report));
    co_return decode(reply.tenant(), report);
}

Task<Result<ListedTenants>> GrpcClient::list_tenants(const Call& call, std::string pool,
                                                     uint64_t known, Report& report) {
    v1::ListTenantsRequest request;
    request.set_pool(std::move(pool));
    request.set_known(known);
    ROS2S_CO_TRY_ASSIGN(const auto reply, co_await ask<v1::ListTenantsReply>(
                                              *parts_, call, std::move(request), report));
    ListedTenants listed{.version = reply.version(),
                         .tenants = {},
                         .audience = {},
                         .issuers = {},
                         .now = WallTime(Duration(reply.now_ns())),
                         .own_only = reply.own_only()};
    (void)read_bytes(reply.audience(), listed.audience.bytes);  // none: it has no capabilities
    for (const std::string& key : reply.issuers()) {
        if (!read_bytes(key, listed.issuers.emplace_back())) {
            co_return malformed("key of capabilities", report);
        }
    }
    if (listed.version == known) co_return listed;
    listed.tenants.emplace();
    for (const v1::Tenant& each : reply.tenants()) {
        ROS2S_CO_TRY_ASSIGN(auto seen, decode(each, report));
        std::string name = seen.tenant.name;
        listed.tenants->emplace(std::move(name), std::move(seen));
    }
    co_return listed;
}

Task<Result<MountedAt>> GrpcClient::mount(const Call& call, session::SessionId id,
                                          std::string container, bool read_only, Report& report) {
    v1::MountRequest request;
    request.set_session(id.value);
    request.set_container(std::move(container));
    request.set_read_only(read_only);
    ROS2S_CO_TRY_ASSIGN(const auto reply,
                        co_await ask<v1::MountReply>(*parts_, call, std::move(request), report));
    co_return MountedAt{.id = {reply.mount()},
                        .storage = reply.storage(),
                        .lends_leases = reply.lends_leases(),
                        .squashes_root = reply.squashes_root()};
}

Task<Result<>> GrpcClient::unmount(const Call& call, session::SessionId id, session::MountId mount,
                                   Report& report) {
    v1::UnmountRequest request;
    request.set_session(id.value);
    request.set_mount(mount.value);
    ROS2S_CO_TRY(co_await ask<v1::UnmountReply>(*parts_, call, std::move(request), report));
    co_return Result<>{};
}

}  // namespace ros2s::control
