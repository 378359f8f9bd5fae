#include "engine.h"

#include <fmt/format.h>

#include "ros2s/fabric/shm/shm.h"
#include "ros2s/fabric/ucx/ucx.h"

namespace ros2s::engined {
namespace {

// Errors: those of ucx::open_domain().
Result<std::unique_ptr<fabric::Domain>> open_domain(Reactor& reactor, const std::string& provider,
                                                    const Settings& settings, Report& report) {
    if (provider == "shm") return fabric::shm::open_domain(reactor);
    return fabric::ucx::open_domain(reactor, {.provider = provider, .device = settings.ucx_device},
                                    report);
}

pki::Identity identity_in(const std::string& directory) {
    return {.authority_file = directory + "/ca.crt",
            .certificate_file = directory + "/server.crt",
            .key_file = directory + "/server.key"};
}

}  // namespace

Engine::Engine(api::Environment environment, Settings settings)
    : environment_(std::move(environment)),
      settings_(std::move(settings)),
      tickets_(environment_.reactor, {}),
      sessions_(environment_.reactor, tickets_, {}, environment_.log),
      gate_(sessions_, session::Purpose::store) {}

Engine::~Engine() { ROS2S_CHECK(control_ == nullptr && ports_.empty()); }

Task<Result<std::unique_ptr<Engine>>> Engine::start(api::Environment environment, Settings settings,
                                                    Report& report) {
    std::unique_ptr<Engine> engine(new Engine(std::move(environment), std::move(settings)));
    const auto begun = co_await engine->begin(report);
    if (!begun) {
        co_await engine->stop();
        co_return fail(begun.error());
    }
    co_return std::move(engine);
}

Task<Result<>> Engine::begin(Report& report) {
    for (const std::string& directory : settings_.pool_directories()) {
        ROS2S_CO_TRY(co_await pools_.open(environment_, directory, report));
    }
    router_ = std::make_unique<StoreRouter>(sessions_, pools_);
    ROS2S_CO_TRY_ASSIGN(const auto places, settings_.data_addresses("the settings", report));
    for (const Listen& place : places) ROS2S_CO_TRY(co_await listen(place, report));
    co_return co_await open_control(report);
}

Task<Result<>> Engine::listen(Listen where, Report& report) {
    Port port;
    ROS2S_CO_TRY_ASSIGN(port.domain,
                        open_domain(environment_.reactor, where.provider, settings_, report));
    auto server = co_await rpc::Server::listen(environment_.reactor, *port.domain, where.address,
                                               *router_, gate_, {}, report);
    if (!server) {
        co_await port.domain->close();
        co_return fail(server.error());
    }
    port.server = std::move(*server);
    gate_.add(*port.server);
    environment_.log.info(
        fmt::format("data plane: {} at {}", where.provider, port.server->address()));
    ports_.push_back(std::move(port));
    co_return Result<>{};
}

Task<Result<>> Engine::open_control(Report& report) {
    std::vector<control::DataAddress> data;
    for (const Port& port : ports_) {
        data.push_back({.provider = port.domain->provider(), .address = port.server->address()});
    }
    ROS2S_CO_TRY_ASSIGN(control_, co_await control::ControlServer::start(
                                      {.reactor = environment_.reactor,
                                       .blocking = environment_.blocking,
                                       .sessions = sessions_,
                                       .tickets = tickets_,
                                       .pools = pools_,
                                       .log = environment_.log},
                                      {.listen = settings_.control_addresses(),
                                       .identity = identity_in(settings_.certificates),
                                       .purpose = session::Purpose::store,
                                       .data = std::move(data)},
                                      report));
    for (const std::string& address : control_->addresses()) {
        environment_.log.info(fmt::format("control plane: gRPC at {}", address));
    }
    co_return Result<>{};
}

Task<> Engine::stop() {
    if (control_) co_await control_->stop(settings_.drain);
    for (const Port& port : ports_) {
        gate_.remove(*port.server);
        co_await port.server->close();
    }
    co_await sessions_.close_all();
    control_.reset();
    for (Port& port : ports_) {
        port.server.reset();
        co_await port.domain->close();
    }
    ports_.clear();
    co_await pools_.close();
}

std::vector<exporter::Source> Engine::metrics() const {
    std::vector<exporter::Source> sources;
    sources.push_back({.list = [this](const MetricVisitor& visit) {
        sessions_.metrics().visit(visit);
        tickets_.metrics().visit(visit);
        control_->visit_metrics(visit);
        router_->visit_metrics(visit);
        pools_.visit_metrics(visit);
    }});
    for (const Port& port : ports_) {
        const std::pair<std::string, std::string> label{"provider", port.domain->provider()};
        sources.push_back({.labels = {label}, .list = [&port](const MetricVisitor& visit) {
                               port.server->metrics().visit(visit);
                               port.domain->counters().list(visit);
                           }});
    }
    return sources;
}

}  // namespace ros2s::engined
