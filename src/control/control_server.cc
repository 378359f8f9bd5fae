#include "control_server.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>

#include <chrono>
#include <optional>

#include "audit.h"
#include "files_service.h"
#include "grpc_address.h"
#include "listen_check.h"
#include "ros2s/runtime/nursery.h"
#include "server_service.h"
#include "session_service.h"
#include "store_service.h"
#include "tls.h"

namespace ros2s::control {
namespace {

// For gRPC's buffers of all connections.
constexpr size_t buffer_bytes_max = size_t{256} << 20;

int milliseconds(Duration duration) {
    return static_cast<int>(
        std::chrono::duration_cast<std::chrono::milliseconds>(duration).count());
}

// The address with the port that was taken.
std::string bound(const std::string& asked, int port) {
    if (asked.starts_with("unix:")) return asked;
    return fmt::format("{}:{}", asked.substr(0, asked.rfind(':')), port);
}

pki::Seconds now(const Reactor& reactor) {
    return std::chrono::floor<std::chrono::seconds>(reactor.wall_time());
}

// What start() refuses before it serves anything. Blocks.
Result<> check_options(const ControlOptions& options, pki::Seconds now, Report& report) {
    if (options.listen.empty()) {
        return report.fail(Code::invalid, "the control plane has no address to listen on");
    }
    for (const std::string& address : options.listen) ROS2S_TRY(check_listening(address, report));
    return pki::check_identity(options.identity, now, report);
}

}  // namespace

struct ControlServer::Parts {
    Parts(ControlParts given, ControlOptions wanted)
        : options(std::move(wanted)),
          gate(given.reactor, options.calls_max, options.calls_per_subject_max),
          ground{.gate = gate, .parts = std::move(given), .options = options},
          audit(ground.parts.log),
          background(gate.reactor, 1) {}

    Result<> build(Report& report);

    ControlOptions options;
    CallGate gate;
    Ground ground;
    Audit audit;
    ServerService about{ground};
    SessionService sessions{ground};
    RegionService regions{ground};
    PoolService pools{ground};
    ContainerService containers{ground};
    MountService mounts{ground};
    FileService files{ground};
    // gRPC asks them for the files as long as the server lives.
    std::vector<std::shared_ptr<grpc::ServerCredentials>> credentials;
    std::unique_ptr<grpc::Server> server;
    std::vector<std::string> addresses;
    StopSource stopping;
    Nursery background;
};

Result<> ControlServer::Parts::build(Report& report) {
    ROS2S_TRY(check_options(options, now(gate.reactor), report));
    grpc::EnableDefaultHealthCheckService(true);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
    grpc::ServerBuilder builder;
    // Two servers on one port would each get some of the connections.
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
                               milliseconds(options.handshake_max));
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS,
                               static_cast<int>(options.streams_per_connection_max));
    builder.SetMaxReceiveMessageSize(static_cast<int>(options.message_bytes_max));
    grpc::ResourceQuota quota("ros2store control plane");
    quota.Resize(buffer_bytes_max);
    builder.SetResourceQuota(quota);
    std::vector<int> ports(options.listen.size());
    for (size_t i = 0; i < ports.size(); ++i) {
        credentials.push_back(server_credentials(options.identity, ground.parts.log));
        builder.AddListeningPort(grpc_address(options.listen[i]), credentials.back(), &ports[i]);
    }
    builder.RegisterService(&about);
    builder.RegisterService(&sessions);
    builder.RegisterService(&regions);
    builder.RegisterService(&pools);
    builder.RegisterService(&containers);
    if (ground.parts.mounts != nullptr) {
        builder.RegisterService(&mounts);
        builder.RegisterService(&files);
    }
    server = builder.BuildAndStart();
    if (server == nullptr) {
        return report.fail(Code::busy,
                           fmt::format("the control plane cannot listen on {}: an address is taken "
                                       "or not this machine's; see who has it with `ss -ltnp`, or "
                                       "choose another",
                                       fmt::join(options.listen, ", ")));
    }
    for (size_t i = 0; i < ports.size(); ++i) {
        addresses.push_back(bound(options.listen[i], ports[i]));
    }
    return {};
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
    const auto built = co_await parts->ground.parts.blocking.run(
        reactor, [&parts, &report] { return parts->build(report); });
    if (!built) co_return fail(built.error());
    parts->ground.parts.log.info(
        fmt::format("control plane on {}", fmt::join(parts->addresses, ", ")));
    ROS2S_CHECK(
        parts->background.try_spawn(parts->ground.parts.sessions.reap(parts->stopping.token())));
    std::unique_ptr<ControlServer> server(new ControlServer(std::move(parts)));
    for (const std::string& pool : server->parts_->ground.parts.pools.names()) {
        server->set_pool_serving(pool, true);
    }
    co_return server;
}

const std::vector<std::string>& ControlServer::addresses() const { return parts_->addresses; }

void ControlServer::set_pool_serving(const std::string& pool, bool serving) {
    if (parts_->ground.draining) return;
    parts_->server->GetHealthCheckService()->SetServingStatus("pool/" + pool, serving);
}

void ControlServer::drain() {
    parts_->ground.draining = true;
    parts_->server->GetHealthCheckService()->SetServingStatus(false);
}

Task<> ControlServer::stop(Duration grace) {
    Parts& parts = *parts_;
    if (parts.server == nullptr) co_return;
    drain();
    parts.stopping.request_stop();
    const auto until = std::chrono::system_clock::now() +
                       std::chrono::duration_cast<std::chrono::system_clock::duration>(grace);
    co_await parts.ground.parts.blocking.run(parts.gate.reactor, [&parts, until] {
        parts.server->Shutdown(until);
        parts.server.reset();
        return Result<>{};
    });
    // Every call has finished, and what gRPC posted about one came before this.
    co_await parts.gate.nursery.join();
    co_await parts.background.join();
}

ControlCounters ControlServer::counters() const {
    const CallGate& gate = parts_->gate;
    return {.served = gate.served.value(),
            .failed = gate.failed.value(),
            .cancelled = gate.cancelled.value(),
            .refused_busy = gate.refused_busy.value(),
            .refused_connections = parts_->audit.refused()};
}

void ControlServer::visit_metrics(const MetricVisitor& visit) const {
    const ControlCounters now = counters();
    visit("ros2store_control_calls_total", "Calls of the control plane that succeeded", now.served);
    visit("ros2store_control_calls_failed_total", "Calls that failed, for whatever reason",
          now.failed);
    visit("ros2store_control_calls_cancelled_total", "Calls that their callers gave up",
          now.cancelled);
    visit("ros2store_control_calls_refused_total", "Calls over a bound", now.refused_busy);
    visit("ros2store_control_connections_refused_total",
          "Connections that failed their handshake: no or wrong certificate, no TLS, too slow",
          now.refused_connections);
}

void ControlServer::visit_times(const HistogramVisitor& visit) const {
    for (const auto& [method, times] : parts_->gate.times) {
        visit("ros2store_control_call_duration_seconds",
              "From a call's arrival on the core to its answer, by method", method, times);
    }
}

}  // namespace ros2s::control
