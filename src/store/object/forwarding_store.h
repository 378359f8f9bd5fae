// ForwardingStore: an ObjectStore that passes every request to another one. Decorators derive from
// it and override what they change.
//
// It owns nothing. The store below outlives it. Core, errors and lifetimes are those of the store
// below: no request is copied, and the returned task is the one of that store.
#pragma once
#include "ros2s/object/object_store.h"

namespace ros2s::object {

class ForwardingStore : public ObjectStore {
  public:
    explicit ForwardingStore(ObjectStore& below) : below_(below) {}

    [[nodiscard]] Features features() const override { return below_.features(); }
    [[nodiscard]] std::string path() const override { return below_.path(); }
    Task<Result<>> fetch(const Call& call, ContainerId container,
                         std::span<FetchItem> items) override {
        return below_.fetch(call, container, items);
    }
    Task<Result<Commit>> update(const Call& call, ContainerId container,
                                const Transaction& transaction) override {
        return below_.update(call, container, transaction);
    }
    Task<Result<ListReply>> list(const Call& call, ContainerId container,
                                 const ListRequest& request) override {
        return below_.list(call, container, request);
    }
    Task<Result<QueryReply>> query(const Call& call, ContainerId container, ObjectId object,
                                   const Akey& akey) override {
        return below_.query(call, container, object, akey);
    }
    Task<Result<ContainerRecord>> create_container(const Call& call,
                                                   const ContainerProperties& properties) override {
        return below_.create_container(call, properties);
    }
    Task<Result<>> destroy_container(const Call& call, ContainerId container) override {
        return below_.destroy_container(call, container);
    }
    Task<Result<std::vector<ContainerRecord>>> list_containers(const Call& call) override {
        return below_.list_containers(call);
    }
    Task<Result<PoolSpace>> space(const Call& call, ContainerId container) override {
        return below_.space(call, container);
    }
    Task<Result<>> pin(const Call& call, ContainerId container, const Holder& holder,
                       FetchItem& item) override {
        return below_.pin(call, container, holder, item);
    }
    Task<Result<>> fetch_chain(const Call& call, ContainerId container, const Holder& holder,
                               std::span<FetchItem> items, std::span<Link> links) override {
        return below_.fetch_chain(call, container, holder, items, links);
    }
    Task<Result<bool>> unpin(const Call& call, ContainerId container, const Holder& holder,
                             ObjectId object) override {
        return below_.unpin(call, container, holder, object);
    }
    Task<Result<bool>> pinned_again(const Call& call, ContainerId container,
                                    const Holder& holder) override {
        return below_.pinned_again(call, container, holder);
    }
    Task<Result<std::optional<Lock>>> lock(const Call& call, ContainerId container,
                                           const Holder& holder,
                                           const LockRequest& request) override {
        return below_.lock(call, container, holder, request);
    }
    Task<Result<uint64_t>> sync(const Call& call, ContainerId container, const Holder& holder,
                                const Acknowledged& known) override {
        return below_.sync(call, container, holder, known);
    }
    Task<Result<LeaseNews>> listen(const Call& call, ContainerId container, const Holder& holder,
                                   const Listening& listening) override {
        return below_.listen(call, container, holder, listening);
    }
    Task<Result<uint64_t>> lease(const Call& call, ContainerId container, const Holder& holder,
                                 ObjectId object) override {
        return below_.lease(call, container, holder, object);
    }
    [[nodiscard]] uint64_t pins_era() const override { return below_.pins_era(); }
    void session_ended(uint64_t session) override { below_.session_ended(session); }
    void client_ended(uint64_t session) override { below_.client_ended(session); }

  protected:
    [[nodiscard]] ObjectStore& below() const { return below_; }

  private:
    ObjectStore& below_;
};

}  // namespace ros2s::object
