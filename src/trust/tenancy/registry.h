// TenantRegistry: the tenants of one pool, at its engine, which is the authority for them. A change
// is durable before change() returns (a file in the pool's directory, replaced as a whole). Expiry
// follows this machine's clock.
//
// Owned by the program; stop() before destruction. Used on one core; the file is written by the
// blocking pool.
//
// Invariants
// - A change is applied completely or not at all; changes are done one after the other.
// - Generations of a tenant increase, also after its revocation. A revoked tenant is kept, so that
//   its subjects stay refused. It becomes active again only by set().
// - The clock may be wrong for a moment. A revocation of a capability is dropped only after its
//   time by the clock, and after this process has had it for as long as a capability lives. A
//   tenant whose end has come stays expired, but not by a clock that was set less than
//   `clock_believed_after` ago. No other clock counts, neither a client's nor a DPU's.
// - A tenant that was removed is not known any more. One that is created later, of any name, has
//   higher generations, and owns nothing that the removed one has made.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "ros2s/runtime/environment.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/sync.h"
#include "ros2s/tenancy/tenant.h"

namespace ros2s::tenancy {

enum class Change : uint8_t { create, set, revoke, remove };

class TenantRegistry {
  public:
    // Waiting calls return after this time at the latest, so that they show that the engine lives.
    static constexpr Duration heartbeat = std::chrono::milliseconds(250);

    // A clock that was set, or that this process has just begun to read, may be wrong so long.
    static constexpr Duration clock_believed_after = std::chrono::seconds(10);

    // A missing file: no tenants. Errors, with a sentence: those of parse_document(), of reading.
    [[nodiscard]] static Task<Result<std::unique_ptr<TenantRegistry>>> open(Environment environment,
                                                                            std::string path,
                                                                            Report& report);
    ~TenantRegistry() = default;
    TenantRegistry& operator=(TenantRegistry&&) = delete;
    Task<> stop();

    [[nodiscard]] const TenantsByName& tenants() const { return pool_.tenants; }
    // Differs after each change and each expiry. Random at first, so that it differs from those of
    // an earlier process.
    [[nodiscard]] uint64_t version() const { return version_; }
    // Calls `told`, on this core, after each change and each expiry. It must not wait.
    void on_change(std::function<void()> told) { told_ = std::move(told); }
    // Lets waiting calls return: something that they report has changed.
    void tell() {
        ++version_;
        news_.wake_all();
    }
    // Returns when version() is not `known`, or after a heartbeat.
    Task<> wait(uint64_t known);

    // create: all settings. set: those that change; an empty text removes one; a revoked tenant is
    // active again. revoke, remove: none; there is always room for them. remove: only a revoked
    // tenant, whose last record is returned. Errors, with a sentence: exists, not_found, invalid,
    // too_large (tenants_max, pool_settings_bytes_max), no_space, io.
    Task<Result<Tenant>> change(Change what, std::string name, config::Entries settings,
                                Report& report);

    // Revokes one capability of the tenant. Its generation stays. Errors, with a sentence:
    // not_found, too_large (revoked_capabilities_max, pool_revoked_capabilities_max), no_space, io.
    Task<Result<Tenant>> revoke_capability(std::string name, Uuid id, RevokedCapability what,
                                           Report& report);

  private:
    TenantRegistry(Environment environment, std::string path);
    Task<Result<Tenant>> remove(std::string name, Report& report);
    // Replaces the record, durably.
    Task<Result<>> keep(Tenant tenant, Report& report);
    // Replaces all records, durably.
    Task<Result<>> keep_all(TenantsOfPool next, Report& report);
    [[nodiscard]] Result<Tenant> changed(Change what, const std::string& name,
                                         const config::Entries& settings, Report& report) const;
    // Drops revocations that are not needed any more, and marks tenants whose end has come. False:
    // there are none.
    bool apply_time(TenantsOfPool& pool);
    // True: it was not set lately.
    bool believes_clock();
    static Task<> apply_time_now(TenantRegistry& self);
    void see_revocations();
    [[nodiscard]] size_t active() const;
    void changed_now();
    static Task<> keep_time(TenantRegistry& self);

    Environment environment_;
    const std::string path_;
    TenantsOfPool pool_;
    // When this process read or made each revocation: by tenant and capability.
    std::map<std::pair<std::string, Uuid>, Time> seen_;
    // The last look at the clock, and when it was set. At first, when this process began.
    WallTime wall_seen_;
    Time seen_at_, clock_set_;
    uint64_t version_;
    bool unwritten_ = false;  // what apply_time_now() found
    size_t active_ = 0;       // at the last heartbeat
    Semaphore turn_;          // of changes
    Event news_;              // woken by changes and heartbeats
    std::function<void()> told_;
    StopSource stopping_;
    Nursery time_;
};

}  // namespace ros2s::tenancy
