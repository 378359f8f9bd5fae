// Pools: the pools of the engine behind this DPU, or in Ceph clusters, and the file systems in
// them. A pool is used with this DPU's own identity, or only with what tenants hand over
// (DelegatedChains).
//
// The loss and the return of an engine or a cluster are logged once each. If a cluster does not
// answer, each request fails at its time limit.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "delegated_chains.h"
#include "ros2s/cipher/key_calls.h"
#include "ros2s/connection/direct_pool.h"
#include "ros2s/connection/rados_pool.h"
#include "ros2s/control/control_server.h"
#include "ros2s/daemon/session_sources.h"
#include "ros2s/exporter/metrics_server.h"
#include "ros2s/fs/change_log.h"
#include "ros2s/fs/file_system.h"
#include "ros2s/fs/listing_memory.h"
#include "ros2s/fs/unsynced.h"
#include "ros2s/object/store_layer.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/stack.h"

namespace ros2s::dpud {

class Pools {
  public:
    Pools(Reactor& reactor, BlockingPool& blocking, session::SessionTable& sessions)
        : chains(reactor, blocking, sessions),
          reactor_(reactor),
          watching_(reactor, 1),
          asking_(reactor, 1) {}

    DelegatedChains chains;

    // From now on opens encrypted containers with the keys at this location (cipher::open_keys()),
    // and encrypts new ones with the named key. `%tenant` in the name stands for the creating
    // tenant, and `%pool` for its pool. Empty: new containers are not encrypted. Errors: invalid,
    // EKEYREJECTED, deadline (the provider does not answer). A name with `%tenant` or `%pool` is
    // not tried. `keep`: the time for which open containers are used after their key is lost.
    Task<Result<>> use_keys(Environment environment, std::string place, Duration keep,
                            std::string new_container_key, Report& report);
    // Opens one more pool. Errors: those of DirectPool::open().
    Task<Result<>> open(connection::Options options, const Log& log, Report& report);
    // The same for a pool in a Ceph cluster. Errors: those of RadosPool::open().
    Task<Result<>> open_in_cluster(Environment environment, std::string name,
                                   connection::RadosOptions options, Report& report);
    // Adds pools of the engine that are used with capabilities only. `mounts`: the hosts' mounts.
    void open_delegated(connection::Options engine, const std::vector<std::string>& pools,
                        const session::Mounts& mounts, const Log& log);
    // The engine's reply about a pool, when the policy has its tenants, and that it did not reply.
    void know(const std::string& pool, const control::ListedTenants& listed);
    void engine_failed(const std::string& pool, Error error, std::string_view why);
    // Watches the engine and the clusters until stop(). Logs one line when one becomes unreachable
    // and one when it is reachable again, and calls `on_change`. A cluster gets a request every few
    // seconds; close() waits for the last one.
    using OnChange = std::function<void(const std::string& pool, bool reachable)>;
    void watch(OnChange on_change);
    Task<> stop();
    Task<> close();
    // The pools whose engine or cluster cannot be reached, as it was logged.
    [[nodiscard]] std::vector<control::AbsentPool> absent() const;
    // From now on, open files without a name stay in the store, so that hosts can reopen them after
    // this process restarts.
    void leave_orphans() { leaves_orphans_ = true; }

    [[nodiscard]] std::vector<std::string> names() const;
    // Null if there is none with that name, or it is used with capabilities.
    [[nodiscard]] object::ObjectStore* find(std::string_view pool);
    // The storage behind that pool, for messages to hosts. Empty if no pool has that name.
    [[nodiscard]] std::string storage(const std::string& pool) const;
    struct Creator {
        std::string subject, pool;
        std::string tenant;  // of the subject in the pool; empty: it has none
    };
    // The store of a pool for this use by the tenant. Errors: not_found, those of
    // DelegatedChains::store().
    Task<Result<std::shared_ptr<object::ObjectStore>>> store(const Call& call, std::string pool,
                                                             std::string tenant,
                                                             capability::Use use, Report& report);
    // Errors: those of store() and cipher::make_keys(), denied (the key is a tenant's, and the
    // creator has no tenant; nothing is created).
    Task<Result<object::ContainerRecord>> create_container(const Call& call, Creator creator,
                                                           object::ContainerProperties properties,
                                                           fs::Owner owner, Report& report);
    // Opens in a store of the pool, which outlives the file system.
    Task<Result<std::unique_ptr<fs::FileSystem>>> open(const Call& call, object::ObjectStore& store,
                                                       const session::MountedContainer& which,
                                                       Report& report);
    [[nodiscard]] bool is_of_engine(const std::string& pool) const {
        const auto found = pools_.find(pool);
        return found != pools_.end() && !found->second.is_in_cluster;
    }
    // The bytes of names that open directories keep.
    [[nodiscard]] size_t listing_bytes() const { return listings_.bytes(); }
    // Of these mounts together.
    [[nodiscard]] daemon::NotDurable not_durable(std::span<const session::MountId> mounts) const;
    // Their counters, labelled by side (engine), pool, and the provider of the connection to the
    // engine (rados: to the cluster). They include `ros2store_engine_reachable`. They
    // live as long as this.
    void add_metrics(std::vector<exporter::Source>& sources) const;

  private:
    struct Pool {
        std::string place;  // for the log
        bool is_in_cluster = false;
        Stack stack{};
        object::ObjectStore* store = nullptr;             // null: by chains of tenants
        const connection::DirectPool* engine = nullptr;   // null: in a cluster, or by chains
        std::optional<rpc::Absence> noted_absence{};      // if there is no connection that knows it
        std::optional<WallTime> reported_absent_since{};  // the start of the logged absence
        void note(bool is_away, WallTime since, std::string_view why);
    };
    // The name of the key for a new container.
    [[nodiscard]] Result<std::string> key_for(const Creator& creator, Report& report) const;
    static Task<> keep_watch(Pools& self, OnChange on_change);
    static Task<> keep_asking(Pools& self);
    static Task<> ask(Reactor& reactor, Pool& cluster);
    void look_at(const std::string& name, Pool& pool, const OnChange& on_change) const;

    Reactor& reactor_;
    Log log_;
    std::unique_ptr<cipher::KeyCalls> keys_;  // null: there are none
    std::unique_ptr<object::StoreLayers> layers_;
    std::string new_container_key_;
    bool leaves_orphans_ = false;
    // Of all mounts.
    fs::ChangeLogMemory change_logs_{{.per_subject = fs::ChangeLog::bytes_max,
                                      .per_tenant = size_t{128} << 20,
                                      .in_all = size_t{256} << 20}};
    // Of mounts that defer changes.
    std::map<session::MountId, std::weak_ptr<const fs::Unsynced>> unsynced_;
    fs::ListingMemory listings_{size_t{64} << 20};
    Quota unfinished_{{.in_all = uint64_t{512} << 20}};
    std::map<std::string, Pool, std::less<>> pools_;
    StopSource stopping_;
    Nursery watching_, asking_;
};

}  // namespace ros2s::dpud
