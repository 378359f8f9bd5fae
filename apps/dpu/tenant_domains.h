// TenantDomains: a protection domain and a listener of the data plane for each tenant.
//
//     first session of a tenant ─► domain, listener at listener_address()        (DataPlane)
//     last session ended        ─► connections end, listener and domain are closed
//
// Segments, keys and their accounting therefore belong to one tenant, and an attack on a listener
// affects only its tenant. A listener admits tickets of its tenant only. Its address follows from
// the tenant's name, unless it is taken. A host gets the address with its session. Opening and
// closing are serialized per tenant, and do not delay other tenants.
//
// Owned by Dpu; used on the reactor's core; stop() before destruction. It watches the session table
// and must be created before the owner of replies of sessions, so that connections end first.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ros2s/control/control_server.h"
#include "ros2s/daemon/data_plane.h"
#include "ros2s/exporter/metrics_server.h"
#include "ros2s/fabric/shm/shm.h"
#include "ros2s/session/gate.h"

namespace ros2s::dpud {

// The suffix of a tenant's address after the one in the settings: ".0123456789abcdef".
inline constexpr size_t listener_suffix_bytes = 17;
[[nodiscard]] std::string listener_suffix(std::string_view tenant);
// The address of a tenant's listener at the `attempt`th attempt, from 0: a socket's path with the
// suffix, or, for a network provider, one of the ports after the one in the settings (0: any).
// Empty: the address has no room for that many.
inline constexpr uint32_t listener_ports = 1000;
[[nodiscard]] std::optional<std::string> listener_address(const daemon::Listen& place,
                                                          std::string_view tenant,
                                                          uint32_t attempt = 0);

// For the addresses in the settings: no tenant has sessions there.
class ClosedGate final : public rpc::Gate {
  public:
    explicit ClosedGate(session::SessionTable& sessions) : sessions_(sessions) {}
    Result<rpc::Guest> admit(const rpc::HelloBody& hello, const fabric::Peer& peer) override {
        return session::admit(sessions_, {.purpose = session::Purpose::link, .tenant = 0}, "nobody",
                              hello, peer);
    }
    void left(const rpc::Guest&) override {}

  private:
    session::SessionTable& sessions_;
};

class TenantDomains final : public control::TenantListeners, public session::SessionWatcher {
  public:
    TenantDomains(Reactor& reactor, rpc::ServerGroup& group, session::SessionTable& sessions,
                  Log log);
    ~TenantDomains() override;
    TenantDomains& operator=(TenantDomains&&) = delete;

    // Listeners of tenants have addresses next to these and serve `service`. Removes sockets that
    // an earlier process left: the process that listens at `places` owns all of them.
    void begin(std::vector<daemon::Listen> places, daemon::ProviderNeeds needs,
               rpc::Service& service);

    Task<Result<std::string>> open(const session::Session& session, std::string provider,
                                   Report& report) override;
    void session_revoked(session::Session& session) override;
    Task<> session_ending(session::Session& session) override;

    // Answers the requests in progress, and ends all connections. Sessions are ended after it.
    Task<> drain();
    // One for each tenant and provider.
    [[nodiscard]] std::vector<exporter::Source> metrics() const;
    [[nodiscard]] size_t size() const { return tenants_.size(); }
    // Shared memory mapped for hosts, of all tenants.
    [[nodiscard]] uint64_t segments_bytes() const { return segments_.bytes; }

  private:
    class TenantGate;
    struct Tenant;
    class Turn;
    Tenant& tenant_of(const session::Session& session);
    Task<Result<>> listen(Tenant& tenant, Report& report);
    // At the first of the tenant's addresses that is free.
    Task<Result<>> listen_at(Tenant& tenant, const daemon::Listen& place, Report& report);
    static Task<> leave_if_last(Tenant& tenant);
    static Task<> leave(Tenant& tenant);

    Reactor& reactor_;
    rpc::ServerGroup& group_;
    session::SessionTable& sessions_;
    Log log_;
    std::vector<daemon::Listen> places_;
    daemon::ProviderNeeds needs_;
    rpc::Service* service_ = nullptr;
    fabric::shm::SegmentsTogether segments_;
    std::map<uint64_t, std::unique_ptr<Tenant>> tenants_;
};

}  // namespace ros2s::dpud
