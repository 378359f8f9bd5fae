#include "data_plane.h"

#include "ros2s/fabric/providers/providers.h"

namespace ros2s::daemon {
namespace {

// For a listener that is only tested.
class RefusesAll final : public fabric::PeerCheck {
  public:
    Verdict admit(uint64_t /*session*/, ConstBytes /*credential*/,
                  const fabric::Peer& /*peer*/) override {
        return {};
    }
    void withdraw(uint64_t /*session*/) noexcept override {}
};

}  // namespace

std::vector<std::string> spoken_addresses(const std::vector<std::string>& control,
                                          const std::vector<control::DataAddress>& data) {
    std::vector<std::string> spoken;
    for (const std::string& address : control) spoken.push_back("control " + address);
    for (const auto& each : data) spoken.push_back(each.provider + " " + each.address);
    return spoken;
}

DataPlane::~DataPlane() { ROS2S_CHECK(ports_.empty()); }

Task<Result<>> DataPlane::check(Reactor& reactor, Listen where, ProviderNeeds needs,
                                Report& report) {
    ROS2S_CO_TRY_ASSIGN(const auto domain,
                        fabric::open_domain(reactor, where.provider, needs.device, report,
                                            {.tls = {.identity = needs.identity}}));
    RefusesAll peer_check;
    auto listener = co_await domain->listen(where.address, {.peer_check = &peer_check}, report);
    Result<> possible;
    if (listener) {
        co_await (*listener)->close();
        listener->reset();
    } else {
        possible = fail(listener.error());
    }
    co_await domain->close();
    co_return possible;
}

Task<Result<>> DataPlane::listen(Listen where, ProviderNeeds needs, const Log& log,
                                 Report& report) {
    auto port = std::make_unique<Port>();
    ROS2S_CO_TRY_ASSIGN(
        port->domain,
        fabric::open_domain(
            reactor_, where.provider, needs.device, report,
            {.together = together_, .tls = {.identity = std::move(needs.identity), .log = log}}));
    auto server = co_await rpc::Server::listen(reactor_, *port->domain, where.address, service_,
                                               gate_, {.group = &group_}, report);
    if (!server) {
        co_await port->domain->close();
        co_return fail(server.error());
    }
    port->server = std::move(*server);
    if (sessions_gate_ != nullptr) sessions_gate_->add(*port->server);
    log.info("data plane: {} at {}", where.provider, port->server->address());
    ports_.push_back(std::move(port));
    co_return Result<>{};
}

std::vector<control::DataAddress> DataPlane::addresses() const {
    std::vector<control::DataAddress> addresses;
    for (const auto& port : ports_) {
        addresses.push_back(
            {.provider = port->domain->provider(), .address = port->server->address()});
    }
    return addresses;
}

void DataPlane::add_metrics(std::vector<exporter::Source>& sources) const {
    for (const auto& port : ports_) {
        sources.push_back({.labels = {{"provider", port->domain->provider()}},
                           .list = [&port = *port](const MetricVisitor& visit) {
                               port.server->metrics().visit(visit);
                               port.domain->counters().list(visit);
                           }});
    }
}

void DataPlane::abandon_session(uint64_t session) {
    for (const auto& port : ports_) port->server->abandon_session(session);
}

Task<> DataPlane::end_session(uint64_t session) {
    for (const auto& port : ports_) co_await port->server->end_session(session);
}

Task<> DataPlane::drain() {
    for (const auto& port : ports_) {
        if (sessions_gate_ != nullptr) sessions_gate_->remove(*port->server);
        co_await port->server->close();
    }
}

Task<> DataPlane::close() {
    for (const auto& port : ports_) {
        port->server.reset();
        co_await port->domain->close();
    }
    ports_.clear();
}

}  // namespace ros2s::daemon
