// ServedStore: an open pool for other processes. They must not depend on what a loss of power can
// still take back, because they outlive it only by chance: the pool's process may end, and they ask
// the next one. So everything that they learn is durable before they learn it.
//
// Owns nothing; the store below outlives it. Used on that store's core.
#pragma once
#include "ros2s/object/forwarding_store.h"

namespace ros2s::engine {

class ServedStore final : public object::ForwardingStore {
  public:
    using ForwardingStore::ForwardingStore;

    [[nodiscard]] object::Features features() const override;
    Task<Result<>> fetch(const Call& call, object::ContainerId container,
                         std::span<object::FetchItem> items) override;
    Task<Result<object::Commit>> update(const Call& call, object::ContainerId container,
                                        const object::Transaction& transaction) override;
    Task<Result<object::ListReply>> list(const Call& call, object::ContainerId container,
                                         const object::ListRequest& request) override;
    Task<Result<object::QueryReply>> query(const Call& call, object::ContainerId container,
                                           object::ObjectId object,
                                           const object::Akey& akey) override;
    Task<Result<object::PoolSpace>> space(const Call& call, object::ContainerId container) override;
    Task<Result<>> pin(const Call& call, object::ContainerId container,
                       const object::Holder& holder, object::FetchItem& item) override;
    Task<Result<>> fetch_chain(const Call& call, object::ContainerId container,
                               const object::Holder& holder, std::span<object::FetchItem> items,
                               std::span<object::Link> links) override;
};

}  // namespace ros2s::engine
