#include "control_server.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <grpcpp/grpcpp.h>
#include <sys/resource.h>

#include <chrono>
#include <optional>

#include "audit.h"
#include "capability_service.h"
#include "connections.h"
#include "files_service.h"
#include "health_service.h"
#include "lease_service.h"
#include "listening.h"
#include "reflection_service.h"
#include "ros2s/runtime/nursery.h"
#include "server_service.h"
#include "session_service.h"
#include "store_service.h"
#include "tenant_service.h"
#include "tls.h"

namespace ros2s::control {
namespace {

// For gRPC's buffers of all connections.
constexpr size_t buffer_bytes_max = size_t{512} << 20;
constexpr int streams_per_connection_max = 256;

int argument_ms(Duration duration) {
    return static_cast<int>(
        std::chrono::duration_cast<std::chrono::milliseconds>(duration).count());
}

// Each connection costs two descriptors. A quarter of all, so that other users have enough.
Connections::Bounds bounds_of(const ControlOptions& options) {
    rlimit descriptors{};
    ::getrlimit(RLIMIT_NOFILE, &descriptors);
    const size_t all = std::min<size_t>(options.connections_max, descriptors.rlim_cur / 8);
    return {.all = all,
            .unproven = std::max<size_t>(all / 2, 1),
            .per_subject =
                std::min<size_t>(options.connections_per_subject_max, std::max<size_t>(all / 4, 1)),
            .handshake_max =
                std::chrono::duration_cast<std::chrono::milliseconds>(options.handshake_max)};
}

pki::Seconds now(const Reactor& reactor) {
    return std::chrono::floor<std::chrono::seconds>(reactor.wall_time());
}

// Checks what start() refuses before it serves. Blocks.
Result<> check_options(const ControlOptions& options, pki::Seconds now, Report& report) {
    if (options.listen.empty()) {
        return report.fail(Code::invalid, "the control plane has no address to listen on");
    }
    for (const std::string& address : options.listen) ROS2S_TRY(check_listening(address, report));
    return pki::check_identity(options.identity, now, report);
}

Task<> end_late(ServerCalls& gate, StopToken stop) {
    while (co_await sleep_for(gate.reactor, std::chrono::seconds(1), stop)) {
        gate.arrivals.end_late();
        while (gate.answers.end_late()) co_await yield(gate.reactor);
    }
}

}  // namespace

struct ControlServer::Parts {
    Parts(ControlParts given, ControlOptions wanted)
        : options(std::move(wanted)),
          connections(given.sessions.accounts(), bounds_of(options), given.log),
          trust(given.reactor, given.blocking, given.sessions, options.identity),
          gate(given.reactor, connections, trust, given.sessions.accounts(),
               {.all = options.requests_max,
                .per_subject = options.calls_per_subject_max,
                .time_max = options.request_max},
               options.calls_max, options.calls_per_subject_max),
          state{.gate = gate, .parts = std::move(given), .options = options},
          audit(state.parts.log),
          background(gate.reactor, 3) {}

    Result<> build(Report& report);

    ControlOptions options;
    Connections connections;
    Trust trust;
    ServerCalls gate;
    ServerState state;
    Audit audit;
    ServerService about{state};
    SessionService sessions{state};
    PoolService pools{state};
    ContainerService containers{state};
    TenantService tenants{state};
    CapabilityService capabilities{state};
    LeaseService leases{state};
    MountService mounts{state};
    FileService files{state};
    HealthService health{gate, state.policy()};
    std::optional<ReflectionService> reflection;
    // gRPC requests the files from them during the server's lifetime.
    std::shared_ptr<grpc::ServerCredentials> credentials;
    std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor;
    std::unique_ptr<grpc::Server> server;
    std::vector<std::string> addresses;
    StopSource stopping;
    Nursery background;
};

Result<> ControlServer::Parts::build(Report& report) {
    gate.refused = [this](const Served& served, std::string_view method, const Error& error) {
        state.refused(served, method, error);
    };
    ROS2S_TRY(check_options(options, now(gate.reactor), report));
    trust.begin();
    for (const std::string& address : options.listen) {
        ROS2S_TRY_ASSIGN(std::string taken, connections.listen(address, report));
        addresses.push_back(std::move(taken));
    }
    ROS2S_TRY(check_grpc_needs(report));
    grpc::EnableDefaultHealthCheckService(false);
    grpc::ServerBuilder builder;
    builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
                               argument_ms(options.handshake_max));
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, streams_per_connection_max);
    // Keeps the memory per request that is not read yet constant.
    builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    builder.SetMaxReceiveMessageSize(static_cast<int>(options.message_bytes_max));
    grpc::ResourceQuota quota("ros2store control plane");
    quota.Resize(buffer_bytes_max);
    builder.SetResourceQuota(quota);
    credentials = server_credentials(options.identity, state.parts.log);
    using External = grpc::ServerBuilder::experimental_type::ExternalConnectionType;
    acceptor = builder.experimental().AddExternalConnectionAcceptor(External::FROM_FD, credentials);
    std::vector<OfferedService*> offered{&about,   &sessions,     &pools,  &containers,
                                         &tenants, &capabilities, &leases, &health};
    if (state.parts.mounts != nullptr) offered.insert(offered.end(), {&mounts, &files});
    std::vector<std::string> names;
    for (const OfferedService* service : offered) names.push_back(service->name());
    offered.push_back(&reflection.emplace(gate, std::move(names)));
    for (OfferedService* service : offered) builder.RegisterService(service);
    server = builder.BuildAndStart();
    if (server == nullptr) {
        return report.fail(Code::io, "the control plane's gRPC server does not start");
    }
    const auto started = connections.start([this](int descriptor) {
        grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
        connection.fd = descriptor;
        acceptor->HandleNewConnection(&connection);
    });
    if (started) return started;
    return report.fail(started.error(), "the control plane cannot accept connections: {}",
                       describe(started.error()));
}

ControlServer::ControlServer(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

ControlServer::~ControlServer() { ROS2S_CHECK(parts_->server == nullptr); }

Task<Result<>> ControlServer::check(Reactor& reactor, BlockingPool& blocking,
                                    ControlOptions options, Report& report) {
    co_return co_await blocking.run(reactor, [&reactor, &options, &report] {
        return check_options(options, now(reactor), report);
    });
}

Task<Result<std::unique_ptr<ControlServer>>> ControlServer::start(ControlParts given,
                                                                  ControlOptions options,
                                                                  Report& report) {
    auto parts = std::make_unique<Parts>(std::move(given), std::move(options));
    Reactor& reactor = parts->gate.reactor;
    const auto built = co_await parts->state.parts.blocking.run(
        reactor, [&parts, &report] { return parts->build(report); });
    if (!built) co_return fail(built.error());
    parts->state.parts.log.info("control plane on {}", fmt::join(parts->addresses, ", "));
    ROS2S_CHECK(
        parts->background.try_spawn(parts->state.parts.sessions.reap(parts->stopping.token())) &&
        parts->background.try_spawn(parts->trust.watch(parts->stopping.token())) &&
        parts->background.try_spawn(end_late(parts->gate, parts->stopping.token())));
    std::unique_ptr<ControlServer> server(new ControlServer(std::move(parts)));
    for (const std::string& pool : server->parts_->state.parts.pools.names()) {
        server->set_pool_serving(pool, true);
    }
    co_return server;
}

const std::vector<std::string>& ControlServer::addresses() const { return parts_->addresses; }

void ControlServer::set_pool_serving(const std::string& pool, bool serving) {
    parts_->health.set_pool(pool, serving);
}

void ControlServer::drain() {
    parts_->state.draining = true;
    parts_->health.set_all_ended();
}

Task<> ControlServer::stop(Duration grace) {
    Parts& parts = *parts_;
    if (parts.server == nullptr) co_return;
    drain();
    parts.stopping.request_stop();
    const auto until = std::chrono::system_clock::now() +
                       std::chrono::duration_cast<std::chrono::system_clock::duration>(grace);
    co_await parts.state.parts.blocking.run(parts.gate.reactor, [&parts, until] {
        parts.connections.stop();
        parts.server->Shutdown(until);
        parts.server.reset();
        return Result<>{};
    });
    // Every call has finished, and gRPC's posts about them were made before this.
    co_await parts.gate.nursery.join();
    co_await parts.background.join();
}

uint64_t ControlServer::rounds() const { return parts_->connections.rounds(); }

ControlCounters ControlServer::counters() const {
    const ServerCalls& gate = parts_->gate;
    return {.served = gate.served.value(),
            .failed = gate.failed.value(),
            .cancelled = gate.cancelled.value(),
            .refused_busy = gate.refused_busy.value(),
            .refused_late = gate.refused_late.value(),
            .refused_connections = parts_->audit.refused(),
            .connections = parts_->connections.count(),
            .unproven_connections = parts_->connections.unproven(),
            .ended_for_room = parts_->connections.ended_for_room(),
            .without_descriptors = parts_->connections.without_descriptors()};
}

void ControlServer::visit_metrics(const MetricVisitor& visit) const {
    const ControlCounters now = counters();
    visit("ros2store_control_calls_total", "Calls of the control plane that succeeded", now.served);
    visit("ros2store_control_calls_failed_total", "Calls that failed, for any reason", now.failed);
    visit("ros2store_control_calls_cancelled_total", "Calls that the client cancelled",
          now.cancelled);
    visit("ros2store_control_calls_refused_total", "Calls refused over a limit", now.refused_busy);
    visit("ros2store_control_requests_late_total", "Requests that were not complete in time",
          now.refused_late);
    visit("ros2store_control_connections_refused_total",
          "Connections that failed the handshake: no or wrong certificate, no TLS, too slow",
          now.refused_connections);
    visit("ros2store_control_connections", "Connections of the control plane", now.connections);
    visit("ros2store_control_connections_unproven", "Connections without a call so far",
          now.unproven_connections);
    visit("ros2store_control_connections_ended_for_room_total",
          "Connections without a call that were closed to make room", now.ended_for_room);
    visit("ros2store_control_descriptors_missing_total",
          "Times that a connection waited for a file descriptor", now.without_descriptors);
}

void ControlServer::visit_times(const HistogramVisitor& visit) const {
    for (const auto& [method, times] : parts_->gate.times) {
        visit("ros2store_control_call_duration_seconds",
              "From a call's arrival on the core to its answer, by method", method, times.read());
    }
}

}  // namespace ros2s::control
