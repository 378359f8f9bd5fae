// EmbeddedPool: a pool directory that this process has opened. It composes devices, index, engine
// and the verifying client. A pool has one owner at a time (owner.h).
//
// Owned by its opener; used on the environment's core; close() before destruction, after every
// file system made here was closed and destroyed.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ros2s/base/latency_histogram.h"
#include "ros2s/base/metrics.h"
#include "ros2s/base/result.h"
#include "ros2s/fs/dfs.h"
#include "ros2s/object/object_store.h"
#include "ros2s/pool/owner.h"
#include "ros2s/pool/pool_directory.h"
#include "ros2s/runtime/call.h"
#include "ros2s/runtime/environment.h"
#include "ros2s/runtime/stack.h"
#include "ros2s/runtime/task.h"

namespace ros2s::client {
class CountedStore;
}
namespace ros2s::engine {
class EngineStore;
}  // namespace ros2s::engine
namespace ros2s::object {
class LeaseTable;
}

namespace ros2s::pool {

class PoolService;

struct EmbeddedOptions {
    std::string program;      // in the owner's record; empty: this process's name
    std::string mount_point;  // set by a mount
    std::string container;    // the mounted one
    // Other processes of this user may use the pool through this one (pool_service.h).
    bool shares = false;
    // The file of the owner, if another process has locked it for this one, else -1. Then the pool
    // opens only if it can be shared.
    int owner_file = -1;
};

// The use of a container or tenant that has a cap.
struct CappedUse {
    bool is_tenant = false;  // or a container
    std::string name;
    object::Amount used, caps;
    uint64_t refusals = 0;
};

class EmbeddedPool {
  public:
    // Errors: not_found (no pool there), busy (the report names the owner, `present` is its
    // record), invalid (config.yaml), corrupt, bad_version, io, denied, no_memory.
    [[nodiscard]] static Task<Result<std::unique_ptr<EmbeddedPool>>> open(Environment environment,
                                                                          std::string directory,
                                                                          EmbeddedOptions options,
                                                                          OwnerRecord& present,
                                                                          Report& report);
    ~EmbeddedPool();
    Task<> close();

    [[nodiscard]] const std::string& name() const { return directory_.config.pool; }
    // The file of the pool's tenants, which the engine that serves the pool keeps.
    [[nodiscard]] std::string tenants_file() const;
    // The file of the keys with which that engine signs capabilities.
    [[nodiscard]] std::string capability_keys_file() const;
    [[nodiscard]] Uuid id() const;
    [[nodiscard]] const std::string& directory() const { return directory_.directory; }
    // For sentences: "the pool 'main' in /srv/ros2s".
    [[nodiscard]] std::string shown() const;
    // The top of the stack. Containers and free space are managed through it.
    [[nodiscard]] object::ObjectStore& store();
    // A file system over a container.
    [[nodiscard]] Task<Result<std::unique_ptr<fs::FileSystem>>> open_container(
        const Call& call, std::string label, fs::DfsOptions options, Report& report);
    // Makes a container with an empty file system in it. Errors: exists, invalid (the label),
    // no_space.
    [[nodiscard]] Task<Result<object::ContainerRecord>> create_container(
        const Call& call, object::ContainerProperties properties, fs::Owner owner, Report& report);
    // Sets owner and caps. Errors, with a sentence: not_found, read_only, name_too_long.
    [[nodiscard]] Task<Result<object::ContainerRecord>> set_container(
        const Call& call, object::ContainerId container, object::ContainerChange change,
        Report& report);
    // The caps of all owners that have one, which are not stored in the pool.
    void set_owner_caps(const std::map<std::string, object::Amount>& caps);
    [[nodiscard]] std::vector<CappedUse> capped() const;
    // "embedded engine, io_uring O_DIRECT, 1 device".
    [[nodiscard]] const std::string& path() const { return path_; }
    // The number of targets, fixed when the pool was made.
    [[nodiscard]] uint32_t targets() const;
    // Empty: the pool takes updates. Otherwise a sentence for people.
    [[nodiscard]] std::string read_only_reason() const;
    // The counters of every layer below the file system.
    void visit_metrics(const MetricVisitor& visit) const;
    void visit_times(const HistogramVisitor& visit) const;
    // Those of other processes that use the pool through this one.
    [[nodiscard]] object::LeaseTable& leases();
    // What a session of another process, or all (0), was acknowledged and is not durable yet.
    struct Deferred {
        uint64_t changes = 0, bytes = 0;
        Duration age{};  // of the first
    };
    [[nodiscard]] Deferred deferred_of(uint64_t session) const;

    [[nodiscard]] std::string layers() const { return stack_.names(); }
    // Returns when no other process uses the pool any more; if none comes, after `within`. At once
    // if the pool is not shared.
    Task<> until_unused(Duration within);

  private:
    EmbeddedPool(Environment environment, PoolDirectory directory);
    Task<Result<>> begin(OwnerRecord self, bool is_for_others, Report& report);
    // `must`: the pool is opened for others.
    Task<Result<>> share(OwnerRecord self, bool must, Report& report);

    Environment environment_;
    PoolDirectory directory_;
    std::string path_;
    Stack stack_;
    engine::EngineStore* engine_ = nullptr;
    client::CountedStore* client_ = nullptr;
    Ownership* ownership_ = nullptr;
    PoolService* service_ = nullptr;  // null: it is not shared
};

}  // namespace ros2s::pool
