// TenantDomains: a protection domain of the data plane for each tenant, with a door of its own.
//
//     first session of a tenant ─► domain, listener at door_address()        (DataPlane)
//     last one ended            ─► connections end, listener and domain go
//
// So segments, keys and their accounting are one tenant's, and what one does to a listener is its
// own trouble. A door lets in tickets of its tenant alone. Where a tenant's door is follows from
// its name, unless somebody listens there already; a host is told with its session. One tenant's
// coming and going takes turns, and takes no time of others'.
//
// Owned by Dpu; used on the reactor's core; stop() before destruction. Watches the session table:
// it is made before who keeps answers for sessions, so that connections end first.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ros2s/control/control_server.h"
#include "ros2s/daemon/data_plane.h"
#include "ros2s/exporter/metrics_server.h"
#include "ros2s/fabric/shm/shm.h"
#include "ros2s/session/gate.h"

namespace ros2s::dpud {

// What a tenant's address has behind the one in the settings: ".0123456789abcdef".
inline constexpr size_t door_suffix_bytes = 17;
[[nodiscard]] std::string door_suffix(std::string_view subject);
// Where a tenant's door is at the `attempt`th attempt, from 0: a socket's path with the suffix, or,
// for a provider on the network, one of the ports behind the one in the settings (0: any). None:
// the address has no room for so many.
inline constexpr uint32_t door_ports = 1000;
[[nodiscard]] std::optional<std::string> door_address(const daemon::Listen& place,
                                                      std::string_view subject,
                                                      uint32_t attempt = 0);

// For the addresses that the settings name: there is no tenant whose sessions enter by them.
class ClosedDoor final : public rpc::Gate {
  public:
    explicit ClosedDoor(session::SessionTable& sessions) : sessions_(sessions) {}
    Result<rpc::Guest> admit(const rpc::HelloBody& hello, const fabric::Peer& peer) override {
        return session::admit(sessions_, {.purpose = session::Purpose::link, .tenant = 0}, "nobody",
                              hello, peer);
    }
    void left(const rpc::Guest&) override {}

  private:
    session::SessionTable& sessions_;
};

class TenantDomains final : public control::Doors, public session::SessionWatcher {
  public:
    // Tenants with counters of their own in the metrics; all further ones are "(others)" together.
    static constexpr size_t labels_max = 64;

    TenantDomains(Reactor& reactor, rpc::ServerGroup& group, session::SessionTable& sessions,
                  Log log);
    ~TenantDomains() override;
    TenantDomains(const TenantDomains&) = delete;
    TenantDomains& operator=(const TenantDomains&) = delete;

    // Tenants' doors are beside these, and serve `service`. Removes sockets that an earlier process
    // left there: whoever listens at the places themselves has them all.
    // `device`: of providers on the network.
    void begin(std::vector<daemon::Listen> places, std::string device, rpc::Service& service);

    Task<Result<std::string>> open(const session::Session& session, std::string provider,
                                   Report& report) override;
    Task<> session_ending(session::Session& session) override;

    // What was begun is answered, and all connections end. Sessions are ended after it.
    Task<> drain();
    // One for each tenant and provider.
    [[nodiscard]] std::vector<exporter::Source> metrics() const;
    [[nodiscard]] size_t size() const { return tenants_.size(); }
    // Shared memory mapped for hosts, of all tenants.
    [[nodiscard]] uint64_t segments_bytes() const { return segments_.bytes; }

  private:
    class Door;
    struct Tenant;
    class Turn;
    Tenant& tenant_of(const session::Session& session);
    Task<Result<>> listen(Tenant& tenant, Report& report);
    // At the first of the tenant's addresses that nobody has.
    Task<Result<>> listen_at(Tenant& tenant, const daemon::Listen& place, Report& report);
    static Task<> leave_if_last(Tenant& tenant);
    static Task<> leave(Tenant& tenant);

    Reactor& reactor_;
    rpc::ServerGroup& group_;
    session::SessionTable& sessions_;
    Log log_;
    std::vector<daemon::Listen> places_;
    std::string device_;
    rpc::Service* service_ = nullptr;
    fabric::shm::SegmentsTogether segments_;
    std::map<uint64_t, std::unique_ptr<Tenant>> tenants_;
};

}  // namespace ros2s::dpud
