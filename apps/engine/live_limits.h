// LiveLimits: keeps the weights and rates of this engine's clients as the settings and the tenants
// of its pools have them, while it runs.
//
//     TenantRegistry of each pool ─ a change ─► Policy ─► Accounts
//
// A tenant's limits apply to its subjects that are clients of the engine: a DPU or direct clients.
// They share an account from their next session on, also with the sessions in which a delegated DPU
// shows the tenant's capabilities. The hosts of a DPU have their rates there.
//
// Owned by Engine; used on its core. Outlives what the registries do.
#pragma once
#include "pools.h"
#include "ros2s/admission/accounts.h"

namespace ros2s::engined {

class LiveLimits {
  public:
    // `settings`: of the engine. All references outlive this.
    LiveLimits(Pools& pools, admission::Allowances settings, admission::Accounts& accounts);
    LiveLimits(const LiveLimits&) = delete;
    LiveLimits& operator=(const LiveLimits&) = delete;
    // The pools are open.
    void begin();

  private:
    void apply();

    Pools& pools_;
    const admission::Allowances settings_;
    admission::Accounts& accounts_;
};

}  // namespace ros2s::engined
