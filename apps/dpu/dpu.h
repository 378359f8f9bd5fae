// Dpu: the storage client of untrusted hosts, in a process that they cannot access.
//
//     host ═ shm ═ its tenant's domain ─ LinkServer ┐
//     host ─ gRPC ─ ControlServer ──────────────────┴ sessions, mounts
//                                                     ├ Dfs ─ DirectPool ─── engine
//                                                     ├ Dfs ─ RadosPool ─── Ceph
//                                                     └ LocalDirectory ─ a directory
//
// Owned by main(). Used on the reactor's core; stop() before destruction.
#pragma once
#include <memory>
#include <vector>

#include "catalog.h"
#include "followed_tenants.h"
#include "ros2s/daemon/data_plane.h"
#include "ros2s/hostlink/link_server.h"
#include "ros2s/runtime/thread_pool.h"
#include "ros2s/runtime/turns.h"
#include "settings.h"
#include "tenant_domains.h"

namespace ros2s::dpud {

class Dpu final : public daemon::Daemon {
  public:
    Dpu(Environment environment, Settings settings);
    ~Dpu() override;
    Dpu& operator=(Dpu&&) = delete;

    // After an error, call stop(). Errors, each with a sentence: those of reaching the engine and
    // the directories, of certificates and listening.
    Task<Result<>> begin(Report& report);
    // Opens no new sessions, answers the requests in progress, then closes everything.
    Task<> stop() override;
    [[nodiscard]] std::vector<exporter::Source> metrics() const override;
    [[nodiscard]] std::string traces() const override { return group_.traces.document("hosts"); }
    void drop_spare() noexcept override { group_.drop_spare(); }
    [[nodiscard]] std::vector<std::string> addresses() const override;
    [[nodiscard]] uint64_t control_rounds() const override { return control_->rounds(); }

  private:
    [[nodiscard]] control::ControlOptions control_options() const;
    [[nodiscard]] connection::Options connection_to(const std::string& pool) const;
    Task<Result<>> open_pools(Report& report);
    Task<Result<>> follow_tenants(Report& report);
    Task<Result<>> open_directories(Report& report);
    Task<Result<>> open_control(Report& report);

    Environment environment_;
    Settings settings_;
    admission::Accounts accounts_;
    session::TicketTable tickets_;
    session::SessionTable sessions_;
    ThreadPool file_threads_;
    ThreadTurns turns_;
    Catalog catalog_;
    FollowedTenants followed_;
    session::Mounts mounts_;
    // The tenants' shares of this process. Each of their servers belongs to it.
    rpc::ServerGroup group_;
    // Watches sessions before the link server does: connections end first.
    TenantDomains tenants_;
    hostlink::LinkServer link_;
    // Listens at the addresses of the settings, so that clients see that the DPU runs. Admits
    // nobody.
    ClosedGate closed_;
    daemon::DataPlane advertised_;
    std::unique_ptr<control::ControlServer> control_;
};

}  // namespace ros2s::dpud
