// DataPlane: the providers that a daemon listens on, each with a domain and a server, for one
// service.
//
// Owned by the daemon; reactor, group, service and gate outlive it. Used on the reactor's core;
// close() before destruction.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "ros2s/control/control_server.h"
#include "ros2s/daemon/places.h"
#include "ros2s/exporter/metrics_server.h"
#include "ros2s/fabric/domain.h"
#include "ros2s/session/gate.h"

namespace ros2s::fabric::shm {
struct SegmentsTogether;
}

namespace ros2s::daemon {

// As Daemon::addresses() says them.
[[nodiscard]] std::vector<std::string> spoken_addresses(
    const std::vector<std::string>& control, const std::vector<control::DataAddress>& data);

class DataPlane {
  public:
    // `group`: what its servers share with the process's others.
    DataPlane(Reactor& reactor, rpc::ServerGroup& group, rpc::Service& service,
              session::SessionGate& gate)
        : reactor_(reactor), group_(group), service_(service), gate_(gate), sessions_gate_(&gate) {}
    // For who ends the connections of sessions himself (end_session()), and has several.
    DataPlane(Reactor& reactor, rpc::ServerGroup& group, rpc::Service& service, rpc::Gate& gate,
              fabric::shm::SegmentsTogether* together = nullptr)
        : reactor_(reactor), group_(group), service_(service), gate_(gate), together_(together) {}
    ~DataPlane();
    DataPlane(const DataPlane&) = delete;
    DataPlane& operator=(const DataPlane&) = delete;

    // What listen() would refuse, now, for who has long work to do before it: the provider and its
    // device, the address. Errors: those of listen().
    static Task<Result<>> check(Reactor& reactor, Listen where, std::string ucx_device,
                                Report& report);
    // One more. Errors: those of fabric::open_domain() and rpc::Server::listen().
    Task<Result<>> listen(Listen where, std::string ucx_device, const Log& log, Report& report);
    // What the control plane tells clients.
    [[nodiscard]] std::vector<control::DataAddress> addresses() const;
    void add_metrics(std::vector<exporter::Source>& sources) const;

    // Ends the session's connections at once, and returns when their requests are done.
    Task<> end_session(uint64_t session);
    // Lets what was begun be answered, and ends all connections.
    Task<> drain();
    // After drain(), and after the sessions were ended.
    Task<> close();

  private:
    struct Port {
        std::unique_ptr<fabric::Domain> domain;
        std::unique_ptr<rpc::Server> server;
    };
    Reactor& reactor_;
    rpc::ServerGroup& group_;
    rpc::Service& service_;
    rpc::Gate& gate_;
    fabric::shm::SegmentsTogether* together_ = nullptr;
    session::SessionGate* sessions_gate_ = nullptr;
    std::vector<std::unique_ptr<Port>> ports_;
};

}  // namespace ros2s::daemon
