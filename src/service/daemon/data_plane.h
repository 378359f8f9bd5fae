// DataPlane: the listeners of a daemon for one service. Each provider has a domain and a server.
//
// Owned by the daemon. Reactor, group, service and gate outlive it. Used on the reactor's core.
// close() comes before destruction.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "ros2s/control/control_server.h"
#include "ros2s/daemon/listen_text.h"
#include "ros2s/exporter/metrics_server.h"
#include "ros2s/fabric/domain.h"
#include "ros2s/pki/certificate.h"
#include "ros2s/session/gate.h"

namespace ros2s::fabric::shm {
struct SegmentsTogether;
}

namespace ros2s::daemon {

// The texts for Daemon::addresses().
[[nodiscard]] std::vector<std::string> spoken_addresses(
    const std::vector<std::string>& control, const std::vector<control::DataAddress>& data);

// The settings that providers need.
struct ProviderNeeds {
    std::string device;      // of ucx and ofi
    pki::Identity identity;  // of tls; the control plane's
};

class DataPlane {
  public:
    // `group`: shares limits with the other servers of the process.
    DataPlane(Reactor& reactor, rpc::ServerGroup& group, rpc::Service& service,
              session::SessionGate& gate)
        : reactor_(reactor), group_(group), service_(service), gate_(gate), sessions_gate_(&gate) {}
    // For owners that have several data planes and end the connections of sessions themselves
    // (end_session()).
    DataPlane(Reactor& reactor, rpc::ServerGroup& group, rpc::Service& service, rpc::Gate& gate,
              fabric::shm::SegmentsTogether* together = nullptr)
        : reactor_(reactor), group_(group), service_(service), gate_(gate), together_(together) {}
    ~DataPlane();
    DataPlane& operator=(DataPlane&&) = delete;

    // Checks what listen() would refuse: the provider and its device, the address. For callers that
    // have long work to do before listen(). Errors: those of listen().
    static Task<Result<>> check(Reactor& reactor, Listen where, ProviderNeeds needs,
                                Report& report);
    // Adds a listener. Errors: those of fabric::open_domain() and rpc::Server::listen().
    Task<Result<>> listen(Listen where, ProviderNeeds needs, const Log& log, Report& report);
    // The addresses for clients, which the control plane returns.
    [[nodiscard]] std::vector<control::DataAddress> addresses() const;
    void add_metrics(std::vector<exporter::Source>& sources) const;

    // Ends the session's connections at once. Their requests stop.
    void abandon_session(uint64_t session);
    // The same, and returns when their requests are done.
    Task<> end_session(uint64_t session);
    // Answers the requests in progress, then ends all connections.
    Task<> drain();
    // Call it after drain(), and after the sessions have ended.
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
