// RemoteStore: an ObjectStore of another process. Each request goes over a channel to a
// StoreServer. A request that is too large is sent as several, one after the other.
//
// Owned by the code that composes it; the channel outlives it. Used on the channel's core.
//
// Invariants: those of ObjectStore, and
// - Checksums travel with the bytes in both directions. The layer above (client::VerifyingStore)
//   verifies received bytes, the store behind the server verifies sent ones.
// - An update, creation or destruction with an update name is done once, however often the
//   connection is lost, as long as the store behind the server keeps its reply. One without fails
//   with `disconnected` if the connection is lost, and may have been done.
// - An item of a fetch larger than one request (64 MiB) may see different epochs in its parts.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "ros2s/object/object_store.h"
#include "ros2s/remote/wire.h"
#include "ros2s/rpc/channel.h"

namespace ros2s::remote {

class RemoteStore final : public object::ObjectStore {
  public:
    // Requests the server's description. Errors: those of rpc::Channel::call(), with the server's
    // sentence.
    static Task<Result<std::unique_ptr<RemoteStore>>> open(const Call& call, rpc::Channel& channel,
                                                           Report& report);
    ~RemoteStore() override;

    [[nodiscard]] object::Features features() const override { return description_.features; }
    [[nodiscard]] std::string path() const override;
    // The path that the server reports: "engine, io_uring, O_DIRECT, 1 device".
    [[nodiscard]] const std::string& path_there() const { return description_.path; }
    Task<Result<>> fetch(const Call& call, object::ContainerId container,
                         std::span<object::FetchItem> items) override;
    bool post_fetch(const Call& call, object::ContainerId container, object::FetchItem& item,
                    object::PostedFetch& fetch) override;
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
    Task<Result<std::optional<object::Lock>>> lock(const Call& call, object::ContainerId container,
                                                   const object::Holder& holder,
                                                   const object::LockRequest& request) override;
    Task<Result<object::LeaseNews>> listen(const Call& call, object::ContainerId container,
                                           const object::Holder& holder,
                                           const object::Listening& listening) override;
    Task<Result<uint64_t>> sync(const Call& call, object::ContainerId container,
                                const object::Holder& holder,
                                const object::Acknowledged& known) override;
    [[nodiscard]] uint64_t pins_era() const override {
        return channel_.metrics().connections.value();
    }
    void session_ended(uint64_t) override {}  // the server informs its store

  private:
    class Posted;  // a posted fetch's request
    RemoteStore(rpc::Channel& channel, Description description);

    // The first items that go in one request; at least one.
    [[nodiscard]] size_t batch_size(std::span<const object::FetchItem> items) const;
    // `links`: of a chain.
    Task<Result<>> fetch_as(const Call& call, Method method, ConstBytes body,
                            std::span<object::FetchItem> items, std::span<object::Link> links);
    Task<Result<>> fetch_batch(const Call& call, object::ContainerId container,
                               std::span<object::FetchItem> items);
    Task<Result<>> fetch_in_parts(const Call& call, object::ContainerId container,
                                  object::FetchItem& item);
    [[nodiscard]] uint64_t payload_bytes_max() const {
        return channel_.welcome().payload_bytes_max;
    }
    // Of one item.
    [[nodiscard]] uint64_t fetch_bytes_max(const object::FetchItem& item) const;

    rpc::Channel& channel_;
    Description description_;
    // As many as were posted at the same time: at most the connection's credits.
    std::vector<std::unique_ptr<Posted>> posted_;
    std::vector<Posted*> unused_;
};

}  // namespace ros2s::remote
