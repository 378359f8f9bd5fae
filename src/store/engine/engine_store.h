// EngineStore: the ObjectStore on devices. A pool is one or more BlockDevices, an Index with the
// locations of all data, and a journal on the first device. Between the index's checkpoints the
// journal is the truth.
//
//   fetch:  node from the cache (or the index) ─ addresses and CRCs ─ device reads ─ verified
//   update: locks ─ conditions ─ payload copied and checksummed ─ group ─ committer ─ visible
//
// One process owns a pool at a time: the devices hold the lock. Everything runs on the core that
// the pool was opened on, or also on the other cores of the targets (Environment::more_reactors).
// Requests may be made on any of these. Index calls that may block run on helper threads.
//
// Invariants: those of ObjectStore, and
// - An update that returned is on the media, and survives loss of power, unless it was deferred.
// - fetch returns only bytes that match the CRC32C stored at their write.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ros2s/device/block_device.h"
#include "ros2s/engine/check.h"
#include "ros2s/engine/options.h"
#include "ros2s/object/leases.h"
#include "ros2s/object/object_store.h"

namespace ros2s::engine {

class EngineStore final : public object::ObjectStore {
  public:
    using Devices = std::vector<std::unique_ptr<device::BlockDevice>>;

    // Makes a pool on open devices. The caller keeps the devices. Their contents are lost. Index
    // and all devices are durable when it returns. A pool that is made only in part cannot be
    // opened. Errors: invalid (too small, too many devices), io, and those of the index factory.
    static Task<Result<>> create(const Environment& env,
                                 std::span<device::BlockDevice* const> devices, IndexFactory index,
                                 CreateOptions options, Report& report);

    // Opens a pool: recovers it, and returns a store that accepts requests. The devices, in any
    // order, now belong to the store, even if this fails (then they are closed). `env` is copied. A
    // pool with a damaged journal opens read-only: see read_only_reason(). Errors: not_found (a
    // device without a pool), invalid (devices missing, foreign or twice), corrupt, bad_version,
    // io; each with a sentence with the device and what to do.
    static Task<Result<std::unique_ptr<EngineStore>>> open(const Environment& env, Devices devices,
                                                           IndexFactory index,
                                                           EngineOptions options, Report& report);
    ~EngineStore() override;

    // Waits for requests in progress, writes a checkpoint, closes the devices. No request may start
    // after it. Must be called. Errors: those of the checkpoint; the devices are closed anyway, and
    // the journal still has the changes that the index lacks.
    Task<Result<>> close();

    // Adds an empty device to the pool. The device now belongs to the store, even if this fails.
    Task<Result<>> grow(std::unique_ptr<device::BlockDevice> device, Report& report);
    // Writes a checkpoint now.
    Task<Result<>> checkpoint();
    // Compares the index, the space map, the summaries and the counts with each other, and with the
    // journal that was replayed (pool_check.h). Changes nothing; no update may run meanwhile.
    // Errors: cancelled, deadline, those of the index other than corrupt.
    Task<Result<CheckedPool>> check(const Call& call, const CheckOptions& options);

    // Sets owner and caps. Updates in progress may still exceed a cap where there was none. Errors:
    // not_found, read_only, name_too_long (the owner).
    Task<Result<object::ContainerRecord>> set_container(const Call& call,
                                                        object::ContainerId container,
                                                        const object::ContainerChange& change);
    // The caps of all owners that have one, for the sum over their containers; they are not stored.
    // On the pool's core.
    void set_owner_caps(const std::map<std::string, object::Amount>& caps);

    // The use of containers and owners that have a cap.
    struct Capped {
        std::string name;
        object::Amount used, caps;
        uint64_t refusals = 0;  // updates, since the pool was opened
    };
    [[nodiscard]] std::vector<Capped> capped_containers() const;
    [[nodiscard]] std::vector<Capped> capped_owners() const;
    // What clients of the session, or all (0), were acknowledged and is not durable yet.
    struct Deferred {
        uint64_t changes = 0, bytes = 0;
        Duration age{};  // of the first
    };
    [[nodiscard]] Deferred deferred_of(uint64_t session) const;

    [[nodiscard]] object::PoolId pool() const;
    // Empty: the pool accepts updates. Otherwise a sentence for people.
    [[nodiscard]] std::string read_only_reason() const;
    [[nodiscard]] uint64_t replayed_groups() const;
    // The bytes in use under the limit of EngineOptions::memory_bytes, without the index's own.
    [[nodiscard]] uint64_t memory_bytes() const;
    void visit_metrics(const MetricVisitor& visit) const;
    void visit_times(const HistogramVisitor& visit) const;
    // On the pool's core.
    [[nodiscard]] object::LeaseTable& leases();
    // Partitions of the dkeys, fixed when the pool was made, and the cores that they are spread
    // over.
    [[nodiscard]] uint32_t targets() const;
    [[nodiscard]] uint32_t cores() const;
    // Every core's handles of all devices, for the path report.
    [[nodiscard]] std::vector<const device::BlockDevice*> devices() const;

    // ---- ObjectStore
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
    Task<Result<bool>> pinned_again(const Call& call, object::ContainerId container,
                                    const object::Holder& holder) override;
    [[nodiscard]] uint64_t pins_era() const override { return 0; }
    Task<Result<std::optional<object::Lock>>> lock(const Call& call, object::ContainerId container,
                                                   const object::Holder& holder,
                                                   const object::LockRequest& request) override;
    Task<Result<uint64_t>> sync(const Call& call, object::ContainerId container,
                                const object::Holder& holder,
                                const object::Acknowledged& known) override;
    Task<Result<object::LeaseNews>> listen(const Call& call, object::ContainerId container,
                                           const object::Holder& holder,
                                           const object::Listening& listening) override;
    Task<Result<uint64_t>> lease(const Call& call, object::ContainerId container,
                                 const object::Holder& holder, object::ObjectId object) override;
    void session_ended(uint64_t session) override;
    void client_ended(uint64_t session) override;

  private:
    class OpenPool;
    explicit EngineStore(std::unique_ptr<OpenPool> pool);
    // True: it waits for nothing that shown() waits for.
    [[nodiscard]] bool is_shown(const Call& call) const;
    // A request of a client that may use the container. Waits before it until others have repeated
    // what is lost, and after it until what they have changed there is durable. Errors also:
    // expired (the client knows another incarnation; detail: this one), busy (another client has
    // the container alone).
    enum class AwaitsRepetitions : uint8_t { yes, unless_it_repeats, no };
    template <AwaitsRepetitions awaits = AwaitsRepetitions::yes, class T, class... Objects>
    Task<Result<T>> shown(const Call& call, object::ContainerId container, Task<Result<T>> request,
                          Objects... objects);
    Task<Result<std::optional<object::Lock>>> lock_container(
        const Call& call, Task<Result<std::optional<object::Lock>>> lock);
    std::unique_ptr<OpenPool> pool_;
};

}  // namespace ros2s::engine
