#include "deferred_store.h"

#include <algorithm>
#include <utility>

namespace ros2s::fs {

Task<Result<>> DeferredStore::fetch(const Call& call, object::ContainerId container,
                                    std::span<object::FetchItem> items) {
    const object::ClientCall asking = asked_by_client(call);
    co_return co_await below().fetch(asking.call(), container, items);
}

bool DeferredStore::post_fetch(const Call& call, object::ContainerId container,
                               object::FetchItem& item, object::PostedFetch& fetch) {
    const object::ClientCall asking = asked_by_client(call);
    return below().post_fetch(asking.call(), container, item, fetch);
}

Task<Result<object::ListReply>> DeferredStore::list(const Call& call, object::ContainerId container,
                                                    const object::ListRequest& request) {
    const object::ClientCall asking = asked_by_client(call);
    co_return co_await below().list(asking.call(), container, request);
}

Task<Result<object::QueryReply>> DeferredStore::query(const Call& call,
                                                      object::ContainerId container,
                                                      object::ObjectId object,
                                                      const object::Akey& akey) {
    const object::ClientCall asking = asked_by_client(call);
    co_return co_await below().query(asking.call(), container, object, akey);
}

Task<Result<>> DeferredStore::pin(const Call& call, object::ContainerId container,
                                  const object::Holder& holder, object::FetchItem& item) {
    const object::ClientCall asking = asked_by_client(call);
    co_return co_await below().pin(asking.call(), container, holder, item);
}

Task<Result<>> DeferredStore::fetch_chain(const Call& call, object::ContainerId container,
                                          const object::Holder& holder,
                                          std::span<object::FetchItem> items,
                                          std::span<object::Link> links) {
    const object::ClientCall asking = asked_by_client(call);
    co_return co_await below().fetch_chain(asking.call(), container, holder, items, links);
}

Task<Result<std::optional<object::Lock>>> DeferredStore::lock(const Call& call,
                                                              object::ContainerId container,
                                                              const object::Holder& holder,
                                                              const object::LockRequest& request) {
    const object::ClientCall asking = asked_by_client(call);
    co_return co_await below().lock(asking.call(), container, holder, request);
}

Task<Result<object::Commit>> DeferredStore::update(const Call& call, object::ContainerId container,
                                                   const object::Transaction& transaction) {
    const object::ClientCall asking = asked_by_client(call);
    const uint64_t losses = losses_;
    const auto done = co_await below().update(asking.call(), container, transaction);
    if (done) {
        if (transaction.deferred) known_.last = std::max(known_.last, done->epoch);
        co_return done;
    }
    const bool is_another = done.error().code == Code::expired && done.error().detail != 0;
    if (!is_another || !transaction.deferred) co_return done;
    ROS2S_CO_TRY(co_await make_durable(call));
    if (losses_ != losses) co_return fail(Code::io);
    co_return co_await update_again(call, container, transaction);
}

// The server was started again and has lost nothing. It may have done the update before that.
Task<Result<object::Commit>> DeferredStore::update_again(const Call& call,
                                                         object::ContainerId container,
                                                         const object::Transaction& transaction) {
    object::Transaction again = transaction;
    again.is_new = false;
    co_return co_await update(call, container, again);
}

Task<Result<>> DeferredStore::make_durable(const Call& call) {
    return make_durable(call, For::user);
}

Task<> DeferredStore::make_durable_in_background(const Call& call) {
    (void)co_await make_durable(call, For::background);
}

Task<Result<>> DeferredStore::make_durable(const Call& call, For whom) {
    for (;;) {
        const object::Acknowledged asked = known_;
        const auto synced = co_await below().sync(call, container_, asked);
        const bool is_lost =
            !synced && synced.error().code == Code::expired && synced.error().detail != 0;
        if (!synced && !is_lost) co_return fail(synced.error());
        const uint64_t now = is_lost ? synced.error().detail : *synced;
        // Another call had the same answer.
        if (known_.incarnation != asked.incarnation) continue;
        if (is_lost && !std::exchange(is_lost_, true)) tell_();
        if (is_lost && whom == For::background) co_return fail(Code::io);
        // The old incarnation acknowledged more while it was asked.
        const bool is_old = now != asked.incarnation && asked.incarnation != 0;
        if (is_old && !is_lost && known_.last != asked.last) continue;
        known_.incarnation = now;
        if (is_old || known_.last == asked.last) known_.last = {};
        if (!is_lost) co_return Result<>();
        is_lost_ = false;
        ++losses_;
        co_return fail(Code::io);
    }
}

}  // namespace ros2s::fs
