// RadosStore: an ObjectStore on RADOS, for data that outgrows one engine. Ceph replicates and
// distributes it. docs/formats/rados.md describes the mapping, the protocol of transactions, and
// the guarantees that are weaker than the engine's.
//
// Ownership: the pools are borrowed. close() before destruction: it waits until replaced data is
// removed, and stores replies unless the cluster does not answer. Thread rule: used on the
// reactor's core. Several stores, also on several machines, may have the same pool open.
//
// Its parts are in OpenPool, and the invariants at the head of each.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "ros2s/base/metrics.h"
#include "ros2s/base/result.h"
#include "ros2s/object/object_store.h"
#include "ros2s/rados/keys.h"
#include "ros2s/rados/options.h"
#include "ros2s/rados/pool.h"

namespace ros2s::rados {

// A sweep removes unreferenced data that is older than this.
inline constexpr Duration orphan_age = std::chrono::hours(1);

// What the sweeps of a container have seen and not yet removed, each with the time of the first
// sweep that saw it.
struct Orphans {
    std::map<std::pair<object::ObjectId, DataId>, Time> data;  // unreferenced
    struct Replies {
        std::string marks;  // if they differ, the replies were used
        Time since{};
    };
    std::map<std::string, Replies> replies;  // by name
};

class RadosStore final : public object::ObjectStore {
  public:
    // `metadata` must support omaps. `data` may be the same pool, or an erasure-coded pool. Errors,
    // with a sentence: exists (the pool has objects that no RadosStore made), unsupported (it has
    // no omap), not_found (it is empty), invalid (its data is in another pool), those of Pool.
    [[nodiscard]] static Task<Result<std::unique_ptr<RadosStore>>> open(const Call& call,
                                                                        Reactor& reactor,
                                                                        Pool& metadata, Pool& data,
                                                                        RadosOptions options,
                                                                        Report& report);
    ~RadosStore() override;
    Task<> close();

    // Removes the remains of crashed clients from the container: unreferenced data, locks and
    // records of abandoned transactions, and objects without entries. Lists all objects of the
    // container. Without `seen`, the age of data is by its writer's clock. With `seen`, an earlier
    // sweep must also have seen the data, long enough ago by this machine's steady clock. Replies
    // unchanged since a sweep reply_age ago are then removed, too. Skips damaged objects. Errors,
    // with a sentence: not_found, those of the call and of Pool; corrupt, bad_version, after the
    // rest is swept.
    Task<Result<>> sweep(const Call& call, object::ContainerId container, Report& report,
                         Orphans* seen = nullptr);

    void visit_metrics(const MetricVisitor& visit) const;

    [[nodiscard]] object::Features features() const override;
    [[nodiscard]] std::string path() const override;
    Task<Result<>> fetch(const Call& call, object::ContainerId container,
                         std::span<object::FetchItem> items) override;
    Task<Result<object::Commit>> update(const Call& call, object::ContainerId container,
                                        const object::Transaction& transaction) override;
    Task<Result<object::ListReply>> list(const Call& call, object::ContainerId container,
                                         const object::ListRequest& request) override;
    Task<Result<object::QueryReply>> query(const Call& call, object::ContainerId container,
                                           object::ObjectId object,
                                           const object::Akey& akey) override;
    Task<Result<object::ContainerRecord>> create_container(
        const Call& call, const object::ContainerProperties& properties) override;
    Task<Result<>> destroy_container(const Call& call, object::ContainerId container) override;
    Task<Result<std::vector<object::ContainerRecord>>> list_containers(const Call& call) override;
    Task<Result<object::PoolSpace>> space(const Call& call, object::ContainerId container) override;
    Task<Result<>> pin(const Call& call, object::ContainerId container,
                       const object::Holder& holder, object::FetchItem& item) override;
    Task<Result<>> fetch_chain(const Call& call, object::ContainerId container,
                               const object::Holder& holder, std::span<object::FetchItem> items,
                               std::span<object::Link> links) override;
    Task<Result<bool>> unpin(const Call& call, object::ContainerId container,
                             const object::Holder& holder, object::ObjectId object) override;
    [[nodiscard]] uint64_t pins_era() const override { return 0; }
    void session_ended(uint64_t session) override;

  private:
    class OpenPool;
    explicit RadosStore(std::unique_ptr<OpenPool> pool);
    std::unique_ptr<OpenPool> pool_;
};

}  // namespace ros2s::rados
