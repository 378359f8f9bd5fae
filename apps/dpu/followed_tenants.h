// FollowedTenants: keeps this DPU's rights and limits equal to those of its pools' engines.
//
//     engine's TenantRegistry ─ Tenants.List, again and again ─► rights::Feed, accounts
//                                                             └─► sessions that lost rights
//
// A change takes effect here when its call returns, within milliseconds. An answer is valid for
// `valid_for` from the time of the request (rights/feed.h). An engine that answers later,
// or cannot be reached, may have revoked rights: hosts of its pools wait until it answers. A
// revocation therefore takes effect within a second, also at a DPU without a connection to the
// engine.
//
// Owned by Dpu; used on the reactor's core; stop() before destruction.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "pools.h"
#include "ros2s/base/log.h"
#include "ros2s/control/control_client.h"
#include "ros2s/exporter/metrics_server.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/session/sessions.h"
#include "ros2s/tenancy/registry.h"
#include "ros2s/tenancy/seen_tenants.h"

namespace ros2s::dpud {

class FollowedTenants {
  public:
    // An engine without news answers after a heartbeat, and the next request after one more. The
    // third is for delays.
    static constexpr Duration valid_for = 3 * tenancy::TenantRegistry::heartbeat;

    // `settings`, `allowances`: of the DPU's own settings. `delegated`: it uses the pools with
    // capabilities of tenants, whose sessions then also end when the tenant's record changes. All
    // references outlive this. `accounts` are changed.
    FollowedTenants(Reactor& reactor, rights::Subjects settings, bool delegated,
                    admission::Allowances allowances, admission::Accounts& accounts,
                    session::SessionTable& sessions, Pools& pools);

    // Reads the tenants of these pools, and then follows them until stop(). Errors, with a
    // sentence: those of control::ControlClient.
    Task<Result<>> begin(control::ClientOptions engine, std::vector<std::string> pools, Log log,
                         Report& report);
    Task<> stop();
    // Whether hosts may use each pool now.
    void add_metrics(std::vector<exporter::Source>& sources) const;
    // The control plane of the engine, from begin() on.
    [[nodiscard]] control::ControlClient& engine() { return *engine_; }

  private:
    // Errors: unsupported (an engine that has no tenants yet).
    Task<Result<>> read(const std::string& pool, Report& report);
    static Task<> follow(FollowedTenants& self, std::string pool);
    void record_reply(const std::string& pool, Time asked);
    void record_silence(const std::string& pool, std::string_view why);
    // Returns the policy before it.
    rights::Policy apply();

    Reactor& reactor_;
    const rights::Subjects settings_;
    const bool delegated_;
    const admission::Allowances allowances_;
    admission::Accounts& accounts_;
    session::SessionTable& sessions_;
    Pools& pools_;
    Log log_;
    std::string address_;  // of the engine
    std::unique_ptr<control::ControlClient> engine_;
    std::map<std::string, WallTime> silent_since_;  // pools whose hosts wait
    std::map<std::string, uint64_t> versions_;
    std::map<std::string, tenancy::SeenTenants> tenants_;
    StopSource stopping_;
    std::unique_ptr<Nursery> following_;
};

}  // namespace ros2s::dpud
