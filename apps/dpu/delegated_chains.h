// DelegatedChains: what tenants hand over, so that this DPU uses pools of an engine for them. Its
// own certificate gives it no container there.
//
//     host ─ chain, for this process's key ─► take(): verified ─► kept for its tenant
//     mount, creation, list ─► the chain that covers it ─► a session of its own with the engine
//
// A tenant that is changed or revoked invalidates its chains: FollowedTenants reports it. Its
// hosts then hand over others. The key lives as long as this process.
//
// Owned by Pools; used on the reactor's core; close() before destruction.
//
// Invariants
// - A chain serves only hosts of the tenant that it names. The engine verifies it again.
// - Bounded: chains per tenant and in all (chain_shares.h). Each has at most one session with the
//   engine.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "chain_shares.h"
#include "ros2s/capability/chain.h"
#include "ros2s/connection/direct_pool.h"
#include "ros2s/control/capabilities.h"
#include "ros2s/control/control_client.h"
#include "ros2s/control/control_server.h"
#include "ros2s/exporter/metrics_server.h"
#include "ros2s/rights/grants/grant.h"
#include "ros2s/runtime/blocking.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/sync.h"
#include "ros2s/runtime/turns.h"
#include "ros2s/session/mounts.h"
#include "ros2s/session/sessions.h"

namespace ros2s::dpud {

class DelegatedChains final : public control::Capabilities {
  public:
    static constexpr ChainBounds chains_max{};
    // Sessions with engines that are ending, in addition to those of chains.
    static constexpr size_t ending_max = 16;
    // Of one subject, at the engine, which has a bound on the calls of this DPU.
    static constexpr size_t requests_at_once = 4;
    // Of one subject, chains that are being verified or wait for it.
    static constexpr size_t taken_at_once = 4;
    // The helper threads have other work, too.
    static constexpr size_t verified_at_once = 2;
    // A session that no mount uses is ended after this time, and at once if the engine has no room
    // for another one. Its chain stays.
    static constexpr Duration unused_max = std::chrono::seconds(5);
    // The time that the engine may take to issue a capability, or to open a session.
    static constexpr Duration opening_max = std::chrono::seconds(10);

    DelegatedChains(Reactor& reactor, BlockingPool& blocking, session::SessionTable& sessions);
    ~DelegatedChains() override;

    // `engine`: the connection settings. `mounts`: the hosts' mounts, which know() reads.
    void begin(connection::Options engine, const std::vector<std::string>& pools,
               const session::Mounts& mounts, Log log);
    // For hosts; `engine` outlives this.
    void ask(control::ControlClient& engine) { control_ = &engine; }
    // Call it with the engine's reply about a pool, when the policy has its tenants.
    void know(const std::string& pool, const control::ListedTenants& listed);
    // Of all sessions for each pool, also of those that have ended.
    [[nodiscard]] std::vector<exporter::Source> counters() const;
    Task<> close();

    [[nodiscard]] bool has(std::string_view pool) const { return states_.contains(pool); }
    // As Pools::storage(). Empty also while no session for the pool is open.
    [[nodiscard]] std::string storage(std::string_view pool) const;
    // The tenant of the subject; empty: it has none that is active.
    [[nodiscard]] std::string tenant_of(std::string_view pool, std::string_view subject) const;
    // The rights of the subject's tenant that a mount needs. None: it is another pool.
    [[nodiscard]] session::Authority authority(std::string_view pool, std::string_view subject,
                                               bool read_only) const;
    // The grants of the chains that the subject's tenant has handed over, and which are valid now.
    [[nodiscard]] std::vector<rights::Grant> handed_over(std::string_view pool,
                                                         std::string_view subject) const;
    // The store for this use by the tenant. Uses the chain with the fewest other rights. Opens a
    // session with the engine if there is none. Errors: denied (the tenant handed over no chain
    // that covers the use), deadline (of the call, or opening_max), cancelled, those of
    // DirectPool::open().
    Task<Result<std::shared_ptr<object::ObjectStore>>> store(const Call& call, std::string pool,
                                                             std::string tenant,
                                                             capability::Use use, Report& report);

    [[nodiscard]] std::optional<Description> describe(std::string_view pool) const override;
    Task<Result<std::string>> issue(const Call& call, std::string caller, std::string peer,
                                    std::string pool, control::SignedCapabilityRequest wanted,
                                    Report& report) override;
    Task<Result<>> take(const Call& call, std::string subject, std::string peer, std::string pool,
                        capability::Chain chain, Report& report) override;

  private:
    struct PoolState;
    class Holder;
    struct DelegatedSession;
    // What a tenant has handed over for one use of containers. There is one chain for it.
    struct Key {
        TenantOfPool tenant;
        capability::Use use;
        [[nodiscard]] bool is_of(std::string_view pool) const { return tenant.first == pool; }
        friend bool operator<(const Key& a, const Key& b) {
            const auto parts = [](const Key& key) {
                return std::tie(key.tenant, key.use.rights.bits, key.use.directories,
                                key.use.container.text);
            };
            return parts(a) < parts(b);
        }
    };
    [[nodiscard]] const rights::Policy& policy() const { return sessions_.rights().policy(); }
    [[nodiscard]] WallTime engine_time(const PoolState& pool) const;
    // Ends the sessions of hosts that have mounted a container of an expired chain in use. The
    // hosts then hand over another chain.
    void report_late(const std::string& pool, const PoolState& state);
    // Errors: denied; then `why` is the reason. Those of Call::check().
    Task<Result<rights::VerifiedCapability>> verify(const Call& call, std::string subject,
                                                    std::string pool,
                                                    const capability::Chain& chain,
                                                    std::string& why);
    // Ends the pool's sessions that no mount has used for unused_max.
    void end_unused(const std::string& pool);
    // Begins to end a session of the pool that no mount uses: the tenant's longest unused one, or
    // another tenant's. False: there is none.
    bool end_longest_unused(const std::string& pool, const std::string& tenant);
    // Makes room for one more chain of the tenant. Errors: busy (detail: the number that it has).
    Result<> make_room(const TenantOfPool& tenant);
    // Removes the unused chain of the tenant that expires first.
    void drop_unused(const TenantOfPool& tenant);
    // Writes an audit line.
    void refused(std::string_view subject, std::string_view peer, std::string_view pool,
                 Error reason, std::string_view sentence);
    // One line a minute: hosts try again.
    void log_not_issued(Error error, const Report& said);
    [[nodiscard]] Call within(const Call& call) const;  // at most opening_max
    // Opens its session with the engine, if there is none.
    Task<Result<>> open(DelegatedSession& delegated, const Call& call, std::string pool,
                        Report& report);
    static Task<> renew(std::shared_ptr<DelegatedSession> delegated);
    static Task<> end(std::shared_ptr<Holder> holder, std::unique_ptr<connection::DirectPool> pool);

    Reactor& reactor_;
    BlockingPool& blocking_;
    session::SessionTable& sessions_;
    const capability::SigningKey key_;
    connection::Options engine_;
    control::ControlClient* control_ = nullptr;
    const session::Mounts* mounts_ = nullptr;
    Log log_;
    std::map<std::string, std::unique_ptr<PoolState>, std::less<>> states_;  // by pool
    std::map<Key, std::shared_ptr<DelegatedSession>> delegated_;
    size_t alive_ = 0;  // of DelegatedSession, also those that only mounts still use
    bool closing_ = false;
    Time may_log_not_issued_{};
    Turns<std::string> asking_, taking_;
    Semaphore verifying_;
    Nursery renewing_, ending_;
};

}  // namespace ros2s::dpud
