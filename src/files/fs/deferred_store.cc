#include "deferred_store.h"

#include <algorithm>

namespace ros2s::fs {

Task<Result<>> DeferredStore::fetch(const Call& call, object::ContainerId container,
                                    std::span<object::FetchItem> items) {
    const Call asked = asked_by_client(call);
    co_return co_await below().fetch(asked, container, items);
}

bool DeferredStore::post_fetch(const Call& call, object::ContainerId container,
                               object::FetchItem& item, object::PostedFetch& fetch) {
    return below().post_fetch(asked_by_client(call), container, item, fetch);
}

Task<Result<object::ListReply>> DeferredStore::list(const Call& call, object::ContainerId container,
                                                    const object::ListRequest& request) {
    const Call asked = asked_by_client(call);
    co_return co_await below().list(asked, container, request);
}

Task<Result<object::QueryReply>> DeferredStore::query(const Call& call,
                                                      object::ContainerId container,
                                                      object::ObjectId object,
                                                      const object::Akey& akey) {
    const Call asked = asked_by_client(call);
    co_return co_await below().query(asked, container, object, akey);
}

Task<Result<object::Commit>> DeferredStore::update(const Call& call, object::ContainerId container,
                                                   const object::Transaction& transaction) {
    const auto done = co_await below().update(call, container, transaction);
    if (!done || !transaction.deferred) co_return done;
    if (era_ != pins_era()) {
        // The server may have been started again since the last time. It is asked about what was
        // acknowledged before that, and then about this one.
        if (!is_unsure()) known_.last = done->epoch;
        (void)co_await make_durable(call);
    }
    known_.last = std::max(known_.last, done->epoch);
    co_return done;
}

Task<Result<>> DeferredStore::make_durable(const Call& call) {
    const object::Acknowledged asked = known_;
    const uint64_t era = pins_era();
    const auto synced = co_await below().sync(call, container_, asked);
    const bool is_lost = !synced && synced.error().code == Code::expired;
    if (!synced && !is_lost) co_return fail(synced.error());
    // Another call may have been told of this loss, too.
    if (is_lost && known_.incarnation == asked.incarnation) {
        ++losses_;
        tell_();
    }
    known_.incarnation = is_lost ? synced.error().detail : *synced;
    era_ = era;
    if (known_.last == asked.last) known_.last = {};
    if (is_lost) co_return fail(Code::io);
    co_return Result<>();
}

}  // namespace ros2s::fs
