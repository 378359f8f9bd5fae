// DeferredStore: the store, in another process, of a mount whose changes are deferred
// (durability=fsync). It says with each request which client asks, so that the store shows the
// client its own changes before they are durable. And it learns whether a loss of power has taken
// back any that were acknowledged.
//
// Part of a mount, which owns it. The store below outlives it. Used on the mount's core.
#pragma once
#include <functional>

#include "ros2s/object/forwarding_store.h"

namespace ros2s::fs {

class DeferredStore final : public object::ForwardingStore {
  public:
    // `tell` is called after each loss.
    DeferredStore(ObjectStore& below, object::ContainerId container, const Uuid& client,
                  std::function<void()> tell)
        : ForwardingStore(below), container_(container), client_(client), tell_(std::move(tell)) {}

    // How often changes were lost. Each file that was open then tells it once.
    [[nodiscard]] uint64_t losses() const { return losses_; }
    // The last acknowledged change may not be durable.
    [[nodiscard]] bool is_unsure() const { return known_.last.value != 0; }

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
    // As ObjectStore::sync(). Errors also: io (changes are lost; losses() has counted it).
    Task<Result<>> make_durable(const Call& call);

  private:
    [[nodiscard]] Call asked_by_client(const Call& call) const {
        Call asked = call;
        asked.reader = &client_;
        return asked;
    }

    const object::ContainerId container_;
    const Uuid client_;
    const std::function<void()> tell_;
    object::Acknowledged known_;
    uint64_t era_ = 0;  // ObjectStore::pins_era() in which the incarnation was asked for
    uint64_t losses_ = 0;
};

}  // namespace ros2s::fs
