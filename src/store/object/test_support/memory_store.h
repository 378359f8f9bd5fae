// MemoryStore: the test oracle. It keeps the object model in ordered maps, in memory, without I/O.
// Other stores must agree with it, and the layers above are tested on it.
//
// Pins end with their session, without a grace period.
//
// Every request takes effect at one instant. It suspends only for the delays of its options, before
// and after. Errors are those of ObjectStore, except `io`; `corrupt` occurs only for wrong
// checksums in update.
//
// Not for production: an update copies the block list of each array that it changes.
#pragma once
#include <memory>

#include "ros2s/object/object_store.h"
#include "ros2s/runtime/reactor.h"

namespace ros2s::object {

class LeaseTable;
class MemoryState;

class MemoryStore final : public ObjectStore {
  public:
    struct Options {
        uint64_t capacity_bytes = uint64_t{1} << 30;  // of blocks; beyond it: no_space
        // Each request waits a random time up to this before it takes effect, and again before it
        // returns, so that concurrent requests overlap as on a device. 0: never suspends.
        Duration delay_max{};
    };
    explicit MemoryStore(Reactor& reactor);
    MemoryStore(Reactor& reactor, Options options);
    ~MemoryStore() override;

    // From now on updates and changes of containers fail with read_only, as after a device error.
    void set_read_only(bool read_only) { read_only_ = read_only; }

    [[nodiscard]] Features features() const override;
    [[nodiscard]] std::string path() const override { return "memory"; }
    Task<Result<>> fetch(const Call& call, ContainerId container,
                         std::span<FetchItem> items) override;
    Task<Result<Commit>> update(const Call& call, ContainerId container,
                                const Transaction& transaction) override;
    Task<Result<ListReply>> list(const Call& call, ContainerId container,
                                 const ListRequest& request) override;
    Task<Result<QueryReply>> query(const Call& call, ContainerId container, ObjectId object,
                                   const Akey& akey) override;
    Task<Result<ContainerRecord>> create_container(const Call& call,
                                                   const ContainerProperties& properties) override;
    Task<Result<>> destroy_container(const Call& call, ContainerId container) override;
    Task<Result<std::vector<ContainerRecord>>> list_containers(const Call& call) override;
    Task<Result<PoolSpace>> space(const Call& call, ContainerId container) override;
    Task<Result<>> pin(const Call& call, ContainerId container, const Holder& holder,
                       FetchItem& item) override;
    Task<Result<>> fetch_chain(const Call& call, ContainerId container, const Holder& holder,
                               std::span<FetchItem> items, std::span<Link> links) override;
    Task<Result<bool>> unpin(const Call& call, ContainerId container, const Holder& holder,
                             ObjectId object) override;
    [[nodiscard]] uint64_t pins_era() const override { return 0; }
    Task<Result<std::optional<Lock>>> lock(const Call& call, ContainerId container,
                                           const Holder& holder,
                                           const LockRequest& request) override;
    Task<Result<LeaseNews>> listen(const Call& call, ContainerId container, const Holder& holder,
                                   const Listening& listening) override;
    Task<Result<uint64_t>> lease(const Call& call, ContainerId container, const Holder& holder,
                                 ObjectId object) override;
    void session_ended(uint64_t session) override;

  private:
    Task<> delay();
    void fetch_item(ContainerId container, FetchItem& item);

    Reactor& reactor_;
    Options options_;
    bool read_only_ = false;
    std::unique_ptr<MemoryState> state_;
    std::unique_ptr<LeaseTable> leases_;
};

}  // namespace ros2s::object
