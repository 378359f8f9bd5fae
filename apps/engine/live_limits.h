// LiveLimits: keeps the weights and rates of this engine's clients as the settings and the tenants
// of its pools have them, while it runs.
//
//     TenantRegistry of each pool ─ a change ─► Policy ─► Accounts
//
// A tenant's limits apply to its subjects that are clients of the engine: a DPU or direct clients.
// They share an account from their next session on. The hosts of a DPU have their limits there.
//
// Owned by Engine; used on its core. stop() after the registries', before destruction.
#pragma once
#include <memory>
#include <string>

#include "pools.h"
#include "ros2s/admission/accounts.h"
#include "ros2s/runtime/nursery.h"

namespace ros2s::engined {

class LiveLimits {
  public:
    // `settings`: of the engine. All references outlive this.
    LiveLimits(Reactor& reactor, Pools& pools, admission::Allowances settings,
               admission::Accounts& accounts);
    // The pools are open.
    void begin();
    Task<> stop();

  private:
    static Task<> follow(LiveLimits& self, tenancy::TenantRegistry& tenants);
    void apply();

    Reactor& reactor_;
    Pools& pools_;
    const admission::Allowances settings_;
    admission::Accounts& accounts_;
    bool stopping_ = false;
    std::unique_ptr<Nursery> following_;
};

}  // namespace ros2s::engined
