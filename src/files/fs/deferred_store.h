// DeferredStore: the store of a mount whose container has durability=fsync. It says with each
// request which client asks, so that the store shows the client its own changes before they are
// durable, and those of others only then. And it learns whether a loss of power of the store's
// server has taken back changes that were acknowledged.
//
// Part of a mount, which owns it. The store below outlives it. Used on the mount's core.
//
// Invariant: no deferred change is made after a loss before the loss was told. The client names the
// incarnation of the store that it knows, and another one refuses the change.
#pragma once
#include <functional>

#include "ros2s/object/client_call.h"
#include "ros2s/object/forwarding_store.h"

namespace ros2s::fs {

class DeferredStore final : public object::ForwardingStore {
  public:
    // `tell` is called after each loss.
    DeferredStore(ObjectStore& below, object::ContainerId container, const Uuid& client,
                  std::function<void()> tell)
        : ForwardingStore(below), container_(container), client_(client), tell_(std::move(tell)) {}

    // How often changes were lost. Files that were open then tell it once each.
    [[nodiscard]] uint64_t losses() const { return losses_ + (is_lost_ ? 1 : 0); }
    // The last acknowledged change may not be durable.
    [[nodiscard]] bool is_unsure() const { return known_.last.value != 0 && !is_lost_; }

    Task<Result<>> fetch(const Call& call, object::ContainerId container,
                         std::span<object::FetchItem> items) override;
    bool post_fetch(const Call& call, object::ContainerId container, object::FetchItem& item,
                    object::PostedFetch& fetch) override;
    // Errors also: io (earlier changes are lost, and nobody was told before).
    Task<Result<object::Commit>> update(const Call& call, object::ContainerId container,
                                        const object::Transaction& transaction) override;
    Task<Result<object::ListReply>> list(const Call& call, object::ContainerId container,
                                         const object::ListRequest& request) override;
    Task<Result<object::QueryReply>> query(const Call& call, object::ContainerId container,
                                           object::ObjectId object,
                                           const object::Akey& akey) override;
    Task<Result<>> pin(const Call& call, object::ContainerId container,
                       const object::Holder& holder, object::FetchItem& item) override;
    Task<Result<>> fetch_chain(const Call& call, object::ContainerId container,
                               const object::Holder& holder, std::span<object::FetchItem> items,
                               std::span<object::Link> links) override;
    Task<Result<std::optional<object::Lock>>> lock(const Call& call, object::ContainerId container,
                                                   const object::Holder& holder,
                                                   const object::LockRequest& request) override;
    // As ObjectStore::sync(). Before the first update. Errors also: io (changes are lost).
    Task<Result<>> make_durable(const Call& call);
    // The same, for nobody: the next call of a user tells a loss.
    Task<> make_durable_in_background(const Call& call);

  private:
    [[nodiscard]] object::ClientCall asked_by_client(const Call& call) const {
        return {call, {.id = client_, .incarnation = known_.incarnation}};
    }
    Task<Result<object::Commit>> update_again(const Call& call, object::ContainerId container,
                                              const object::Transaction& transaction);

    const object::ContainerId container_;
    const Uuid client_;
    const std::function<void()> tell_;
    enum class For : uint8_t { user, background };
    Task<Result<>> make_durable(const Call& call, For whom);

    object::Acknowledged known_;
    bool is_lost_ = false;  // what is known, and no user has heard of it
    uint64_t losses_ = 0;
};

}  // namespace ros2s::fs
