// Engine: serves pools to clients: a control plane that admits them, and a data plane on each
// provider.
//
// Connections, sessions and requests live on one reactor. Pools' targets may be spread over more
// (Reactors): the pool itself moves a request to the reactor of its bytes, and back.
//
//     ControlServer ─ sessions, tickets ─┐
//     fabric domain ─ rpc::Server ─ gate ┴─ StoreRouter ─ pool's ObjectStore
//     TenantRegistry of each pool ─ a change, an expiry ─► rights::Feed, Accounts
//
// Owned by main(). Used on the reactor's core; stop() before destruction.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "issued_capabilities.h"
#include "pools.h"
#include "reactors.h"
#include "ros2s/admission/accounts.h"
#include "ros2s/daemon/data_plane.h"
#include "ros2s/runtime/environment.h"
#include "ros2s/session/gate.h"
#include "settings.h"
#include "store_router.h"

namespace ros2s::engined {

class Engine final : public daemon::Daemon {
  public:
    Engine(Environment environment, Settings settings);
    ~Engine() override;
    Engine& operator=(Engine&&) = delete;

    // After an error, call stop(). Errors, each with a sentence: those of opening pools, providers
    // and certificates, and of listening.
    Task<Result<>> begin(Report& report);
    // Opens no new sessions, answers the requests in progress, then closes everything. The pools
    // need no recovery afterwards.
    Task<> stop() override;

    [[nodiscard]] std::vector<exporter::Source> metrics() const override;
    [[nodiscard]] std::string traces() const override { return group_.traces.document("clients"); }
    void drop_spare() noexcept override { group_.drop_spare(); }
    [[nodiscard]] std::vector<std::string> addresses() const override;
    [[nodiscard]] uint64_t control_rounds() const override { return control_->rounds(); }
    [[nodiscard]] std::vector<OsReactor*> more_reactors() const override { return reactors_.all(); }

  private:
    // With the data plane's addresses, once it listens.
    [[nodiscard]] control::ControlOptions control_options() const;
    Result<> start_reactors(Report& report);
    // The pools are open. From now on the rights, weights and rates of clients are those of the
    // settings and of the pools' tenants as they are.
    void follow_tenants();
    // A session that lost rights ends. A tenant's limits apply to its subjects that are clients
    // here, a DPU or direct clients: they share an account from their next session on, also with
    // the sessions in which delegated DPUs show the tenant's capabilities.
    void apply_policy();
    // An update of one session has waited long for another.
    void report(const std::string& pool, const object::SlowLease& slow);
    Task<Result<>> open_control(Report& report);

    Environment environment_;
    Settings settings_;
    Reactors reactors_;
    Pools pools_;
    admission::Accounts accounts_;
    rpc::ServerGroup group_;
    session::TicketTable tickets_;
    session::SessionTable sessions_;
    IssuedCapabilities capabilities_;
    session::SessionGate gate_;
    std::unique_ptr<StoreRouter> router_;
    std::unique_ptr<daemon::DataPlane> data_;
    std::unique_ptr<control::ControlServer> control_;
};

}  // namespace ros2s::engined
