// LivePolicy: keeps the rights, weights and rates of this engine's clients as the settings and the
// tenants of its pools have them, while it runs.
//
//     TenantRegistry of each pool ─ a change, an expiry ─► rights::Feed, Accounts
//                                                        └─► sessions that lost rights
//
// The settings alone give rights to clients. If a tenant was revoked or has expired, its subjects
// lose these rights in the pool, and their sessions there end. A session that shows a capability
// has the capability's rights, and ends with it.
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

namespace ros2s::engined {

class LivePolicy {
  public:
    // `settings`: of the engine, and its delegates and administrators. All references outlive
    // this.
    LivePolicy(Reactor& reactor, Pools& pools, rights::Parties settings,
               admission::Allowances allowances, admission::Accounts& accounts,
               session::SessionTable& sessions);
    LivePolicy(const LivePolicy&) = delete;
    LivePolicy& operator=(const LivePolicy&) = delete;
    // The pools are open.
    void begin();

  private:
    void apply();

    Reactor& reactor_;
    Pools& pools_;
    const rights::Parties settings_;
    const admission::Allowances allowances_;
    admission::Accounts& accounts_;
    session::SessionTable& sessions_;
};

}  // namespace ros2s::engined
