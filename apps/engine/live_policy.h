// LivePolicy: keeps the rights, weights and rates of this engine's clients as the settings and the
// tenants of its pools have them, while it runs.
//
//     TenantRegistry of each pool ─ a change, an expiry ─► Policy ─► access(), Accounts
//                                                                └─► sessions that lost rights
//
// The settings alone give rights to clients. If a tenant was revoked or has expired, its subjects
// lose these rights in the pool, and their sessions there end. A session that shows a capability
// has the capability's rights, and IssuedCapabilities ends it.
//
// A tenant's limits apply to its subjects that are clients of the engine: a DPU or direct clients.
// They share an account from their next session on, also with the sessions in which delegated DPUs
// show the tenant's capabilities.
//
// Owned by Engine; used on its core. Outlives what the registries do.
#pragma once
#include "pools.h"
#include "ros2s/admission/accounts.h"
#include "ros2s/rights/policy.h"
#include "ros2s/session/sessions.h"
#include "ros2s/tenancy/policy.h"

namespace ros2s::engined {

class LivePolicy {
  public:
    // `settings`: of the engine. `delegates`: subjects of DPUs that show capabilities of tenants.
    // All references outlive this.
    LivePolicy(Reactor& reactor, Pools& pools, tenancy::Policy settings,
               std::vector<std::string> delegates, admission::Accounts& accounts,
               session::SessionTable& sessions);
    LivePolicy(const LivePolicy&) = delete;
    LivePolicy& operator=(const LivePolicy&) = delete;
    // The pools are open.
    void begin();

    // The rights of clients now. Exists as long as this.
    [[nodiscard]] const session::AccessTable& access() const { return access_; }

  private:
    void apply();
    // Has decide() asked beside the table of rights. `now`: of the table.
    void compare(WallTime now);
    void end_without_rights();

    Reactor& reactor_;
    Pools& pools_;
    const tenancy::Policy settings_;
    const std::vector<std::string> delegates_;
    rights::Policy policy_;
    session::AccessTable access_;
    admission::Accounts& accounts_;
    session::SessionTable& sessions_;
};

}  // namespace ros2s::engined
