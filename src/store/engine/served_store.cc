#include "ros2s/engine/served_store.h"

#include "ros2s/engine/rules/commit_rules.h"

namespace ros2s::engine {
namespace {

// Also if the request failed: the error may say what is there.
template <class T>
Task<Result<T>> when_durable(object::ObjectStore& store, const Call& call,
                             Task<Result<T>> request) {
    Result<T> done = co_await std::move(request);
    if (rules.show_durable_only) ROS2S_CO_TRY(co_await store.sync(call));
    co_return done;
}

}  // namespace

object::Features ServedStore::features() const {
    object::Features features = below().features();
    features.deferred = false;
    return features;
}
Task<Result<>> ServedStore::fetch(const Call& call, object::ContainerId container,
                                  std::span<object::FetchItem> items) {
    return when_durable(below(), call, below().fetch(call, container, items));
}
Task<Result<object::Commit>> ServedStore::update(const Call& call, object::ContainerId container,
                                                 const object::Transaction& transaction) {
    return when_durable(below(), call, below().update(call, container, transaction));
}
Task<Result<object::ListReply>> ServedStore::list(const Call& call, object::ContainerId container,
                                                  const object::ListRequest& request) {
    return when_durable(below(), call, below().list(call, container, request));
}
Task<Result<object::QueryReply>> ServedStore::query(const Call& call, object::ContainerId container,
                                                    object::ObjectId object,
                                                    const object::Akey& akey) {
    return when_durable(below(), call, below().query(call, container, object, akey));
}
Task<Result<object::PoolSpace>> ServedStore::space(const Call& call,
                                                   object::ContainerId container) {
    return when_durable(below(), call, below().space(call, container));
}
Task<Result<>> ServedStore::pin(const Call& call, object::ContainerId container,
                                const object::Holder& holder, object::FetchItem& item) {
    return when_durable(below(), call, below().pin(call, container, holder, item));
}
Task<Result<>> ServedStore::fetch_chain(const Call& call, object::ContainerId container,
                                        const object::Holder& holder,
                                        std::span<object::FetchItem> items,
                                        std::span<object::Link> links) {
    return when_durable(below(), call, below().fetch_chain(call, container, holder, items, links));
}

}  // namespace ros2s::engine
