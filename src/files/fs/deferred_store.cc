#include "deferred_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lock_wait.h"
#include "records.h"
#include "ros2s/object/lease_wait.h"

namespace ros2s::fs {
namespace {

constexpr int attempts_max = 64;  // with one start of the store each

// The store was started again since the client learnt its incarnation.
bool is_of_another(const Error& error) { return error.code == Code::expired && error.detail != 0; }

// So fails what may succeed when it is asked again: others may give space back.
bool may_pass(Code code) {
    return code == Code::leased || code == Code::busy || code == Code::no_memory ||
           code == Code::no_space || code == Code::over_cap;
}

// The name that it makes or removes, else the node that it changes.
std::string described(const object::Transaction& transaction) {
    for (const object::Operation& each : transaction.operations) {
        if (each.akey != entry_akey()) continue;
        return fmt::format("the name '{}' in the directory with inode {}", each.dkey.bytes,
                           each.object.low);
    }
    if (transaction.operations.empty()) return {};
    return fmt::format("a change of inode {}", transaction.operations.front().object.low);
}

}  // namespace

// ---- reading ---------------------------------------------------------------------------------

template <class Ask>
auto DeferredStore::ask(const Call& call, Ask ask) -> std::invoke_result_t<Ask, const Call&> {
    if (refuses_all_) co_return fail(Code::io);
    object::LeaseWait wait(reactor_);
    for (int starts = 0; starts < attempts_max;) {
        const object::ClientCall asking = asked_by_client(call);
        auto done = co_await ask(asking.call());
        if (done) co_return done;
        if (is_of_another(done.error())) {
            ROS2S_CO_TRY(co_await learn(call));
            ++starts;
            continue;
        }
        if (done.error().code != Code::leased) co_return done;
        ROS2S_CO_TRY_ASSIGN(const bool again, co_await wait.again(call));
        if (!again) co_return done;
    }
    co_return fail(Code::busy);
}

Task<Result<>> DeferredStore::fetch(const Call& call, object::ContainerId container,
                                    std::span<object::FetchItem> items) {
    return ask(call, [this, container, items](const Call& by) {
        return below().fetch(by, container, items);
    });
}

bool DeferredStore::post_fetch(const Call& call, object::ContainerId container,
                               object::FetchItem& item, object::PostedFetch& fetch) {
    if (refuses_all_) return false;
    const object::ClientCall asking = asked_by_client(call);
    return below().post_fetch(asking.call(), container, item, fetch);
}

Task<Result<object::ListReply>> DeferredStore::list(const Call& call, object::ContainerId container,
                                                    const object::ListRequest& request) {
    return ask(call, [this, container, &request](const Call& by) {
        return below().list(by, container, request);
    });
}

Task<Result<object::QueryReply>> DeferredStore::query(const Call& call,
                                                      object::ContainerId container,
                                                      object::ObjectId object,
                                                      const object::Akey& akey) {
    return ask(call, [this, container, object, &akey](const Call& by) {
        return below().query(by, container, object, akey);
    });
}

Task<Result<>> DeferredStore::pin(const Call& call, object::ContainerId container,
                                  const object::Holder& holder, object::FetchItem& item) {
    return ask(call, [this, container, &holder, &item](const Call& by) {
        return below().pin(by, container, holder, item);
    });
}

Task<Result<>> DeferredStore::fetch_chain(const Call& call, object::ContainerId container,
                                          const object::Holder& holder,
                                          std::span<object::FetchItem> items,
                                          std::span<object::Link> links) {
    return ask(call, [this, container, &holder, items, links](const Call& by) {
        return below().fetch_chain(by, container, holder, items, links);
    });
}

Task<Result<std::optional<object::Lock>>> DeferredStore::lock(const Call& call,
                                                              object::ContainerId container,
                                                              const object::Holder& holder,
                                                              const object::LockRequest& request) {
    if (!refuses_all_ || request.lock.mode != object::LockMode::none) {
        co_return co_await ask(call, [this, container, &holder, &request](const Call& by) {
            return below().lock(by, container, holder, request);
        });
    }
    // Nobody else may have to wait for what it had.
    const object::ClientCall asking = asked_by_client(call);
    co_return co_await below().lock(asking.call(), container, holder, request);
}

// ---- changing --------------------------------------------------------------------------------

// A store in this process loses power together with the mount: there is nobody to repeat anything.
bool DeferredStore::can_defer(const object::Transaction& transaction) const {
    const bool is_kept =
        known_.incarnation != 0 && unknown_upto_ == 0 && log_.has_room(transaction);
    return transaction.deferred && (below().pins_era() == 0 || is_kept);
}

Task<Result<object::Commit>> DeferredStore::update(const Call& call, object::ContainerId /*own*/,
                                                   const object::Transaction& transaction) {
    if (refuses_all_ || (transaction.deferred && tells_loss())) co_return fail(Code::io);
    const uint64_t losses = losses_;
    auto done = co_await send(call, transaction);
    if (done || !is_of_another(done.error())) co_return done;
    // The store may have done it before it was started again.
    object::Transaction again = transaction;
    again.is_new = false;
    object::LeaseWait wait(reactor_);
    for (int starts = 0; starts < attempts_max;) {
        if (is_of_another(done.error())) {
            ROS2S_CO_TRY(co_await learn(call));
            ++starts;
        } else {
            ROS2S_CO_TRY_ASSIGN(const bool may_ask, co_await wait.again(call));
            if (!may_ask) co_return done;
        }
        if (transaction.deferred && losses_ != losses) {
            is_untold_ = false;
            co_return fail(Code::io);
        }
        done = co_await send(call, again);
        if (done) co_return done;
        if (!is_of_another(done.error()) && done.error().code != Code::leased) co_return done;
    }
    co_return fail(Code::busy);
}

Task<Result<object::Commit>> DeferredStore::send(const Call& call,
                                                 const object::Transaction& transaction) {
    const bool is_changed =
        log_.may_name_old_epochs() || (transaction.deferred && !can_defer(transaction));
    return is_changed ? send_changed(call, transaction) : send_as_it_is(call, transaction);
}

Task<Result<object::Commit>> DeferredStore::send_changed(const Call& call,
                                                         const object::Transaction& transaction) {
    object::Transaction changed = transaction;
    std::string inodes;
    log_.replace_old_epochs(changed, inodes);
    changed.deferred = can_defer(transaction);
    co_return co_await send_as_it_is(call, changed);
}

Task<Result<object::Commit>> DeferredStore::send_as_it_is(const Call& call,
                                                          const object::Transaction& transaction) {
    const object::ClientCall asking = asked_by_client(call);
    const uint64_t incarnation = named_;
    const uint64_t number = ++sent_;
    const auto done = co_await below().update(asking.call(), container_, transaction);
    if (done) {
        const bool is_durable = !transaction.deferred && !done->replayed;
        if (is_durable && number > unknown_upto_) unknown_upto_ = 0;
        const Result<> noted = co_await acknowledged(call, transaction, *done, incarnation);
        if (noted) co_return done;
        if (transaction.deferred) unknown_upto_ = sent_;
        co_return fail(noted.error());
    } else if (transaction.deferred && may_be_done(done.error())) {
        unknown_upto_ = sent_;
    }
    co_return done;
}

// A change that is durable made all earlier ones durable.
void DeferredStore::note(const object::Transaction& transaction, object::Epoch epoch,
                         uint64_t incarnation) {
    if (transaction.deferred) {
        known_.last = std::max(known_.last, epoch);
        unsynced_->add(payload_bytes(transaction), reactor_.now());
        const bool is_kept = incarnation != 0 && below().pins_era() != 0;
        if (is_kept) log_.add(transaction, epoch, incarnation);
        return;
    }
    if (incarnation != known_.incarnation) return;
    log_.remove_upto(epoch);
    if (known_.last <= epoch) all_are_durable();
}

void DeferredStore::all_are_durable() {
    known_.last = {};
    unsynced_->durable_upto(unsynced_->all(), reactor_.now());
}

// A request that was sent again may ask otherwise than the change that was done: what to repeat is
// not known then, so the change is made durable. A change that the store has acknowledged before
// its power was lost, and that was not in the log when this repeated the log, is sent again.
Task<Result<>> DeferredStore::acknowledged(const Call& call, const object::Transaction& transaction,
                                           const object::Commit& commit, uint64_t incarnation) {
    const auto is_old = [&] {
        return known_.incarnation != 0 && known_.incarnation != incarnation;
    };
    if (!commit.replayed) {
        if (transaction.deferred && is_old()) co_return fail(Code::expired, known_.incarnation);
        note(transaction, commit.epoch, incarnation);
        co_return Result<>();
    }
    known_.last = std::max(known_.last, commit.epoch);
    if (transaction.deferred && log_.has(commit.epoch)) co_return Result<>();
    ROS2S_CO_TRY(co_await learn(call));
    if (is_old()) co_return fail(Code::expired, known_.incarnation);
    co_return Result<>();
}

// ---- after a start of the store --------------------------------------------------------------

Task<Result<>> DeferredStore::make_durable(const Call& call) {
    ROS2S_CO_TRY(co_await learn(call));
    if (tells_loss()) co_return fail(Code::io);
    co_return Result<>();
}

Task<Result<>> DeferredStore::learn(const Call& call) {
    for (int attempt = 0; attempt < attempts_max; ++attempt) {
        const object::Acknowledged asked = known_;
        const Unsynced::Amount all = unsynced_->all();
        const Time sent = reactor_.now();
        const auto synced = co_await below().sync(call, container_, holder_, asked);
        const uint64_t now = synced ? *synced : synced.error().detail;
        const bool is_lost = !synced && is_of_another(synced.error());
        const bool is_awaited = !synced && synced.error().code == Code::busy && now != 0;
        if (!synced && !is_lost && !is_awaited) co_return fail(synced.error());
        // Another call had the same answer.
        if (known_.incarnation != asked.incarnation) continue;
        if (is_awaited) {
            const auto repeated = co_await repeat(call, now);
            if (!repeated && !is_of_another(repeated.error())) co_return fail(repeated.error());
            continue;
        }
        if (is_lost) {
            co_await turn_.acquire();
            const SemaphoreHold hold(turn_);
            if (known_.incarnation == asked.incarnation) lose_all(now);
            continue;
        }
        // The old incarnation acknowledged more while it was asked.
        const bool is_old = now != asked.incarnation && asked.incarnation != 0;
        if (is_old && known_.last != asked.last) continue;
        log_.remove_upto(asked.last);
        unsynced_->durable_upto(all, sent);
        known_.incarnation = named_ = now;
        if (known_.last == asked.last) all_are_durable();
        co_return Result<>();
    }
    co_return fail(Code::busy);
}

// Of an interrupted call another one goes on where it ended.
Task<Result<>> DeferredStore::repeat(const Call& call, uint64_t incarnation) {
    co_await turn_.acquire();
    const SemaphoreHold hold(turn_);
    if (known_.incarnation == incarnation) co_return Result<>();
    Loss loss;
    ChangeLog::Changes& changes = log_.changes();
    for (auto each = changes.begin(); each != changes.end(); ++each) {
        if (each->second.incarnation == incarnation) continue;
        ROS2S_CO_TRY_ASSIGN(const bool is_done, co_await repeat(call, incarnation, each));
        if (!is_done) {
            loss.lost = static_cast<uint64_t>(std::distance(each, changes.end()));
            loss.first = described(each->second.transaction);
            log_.remove_from(each);
            break;
        }
        ++loss.repeated;
    }
    known_ = {.incarnation = incarnation, .last = {}};
    if (!changes.empty()) known_.last = changes.rbegin()->second.epoch;
    lose(loss);
    co_return Result<>();
}

// False: it cannot be repeated.
Task<Result<bool>> DeferredStore::repeat(const Call& call, uint64_t incarnation,
                                         ChangeLog::Changes::iterator change) {
    const object::ClientCall asking(call, {.id = holder_.client, .incarnation = incarnation});
    ChangeLog::Change copy;
    log_.copy_to_repeat(change->second, copy);
    const object::Transaction& transaction = copy.transaction;
    object::LeaseWait wait(reactor_);
    Result<object::Commit> done;
    bool has_failed = false;
    for (bool again = true; again;) {
        done = co_await below().update(asking.call(), container_, transaction);
        // If that made the pool read-only, it says so now.
        const bool is_failure = !done && done.error().code == Code::io;
        if (is_failure && !std::exchange(has_failed, true)) continue;
        if (done || !may_pass(done.error().code)) break;
        ROS2S_CO_TRY_ASSIGN(again, co_await wait.again(call));
    }
    if (done) {
        log_.repeated(change, done->epoch, incarnation);
        co_return true;
    }
    const Error error = done.error();
    // A later one of the slot survived. So did this one.
    if (error.code == Code::stale) {
        log_.repeated(change, change->second.epoch, incarnation);
        co_return true;
    }
    // A pool that is read-only may be repaired, and opened again.
    const bool may_be_later = may_run_on(error.code) || error.code == Code::read_only;
    if (is_of_another(error) || may_be_later) co_return fail(error);
    co_return false;
}

void DeferredStore::lose_all(uint64_t incarnation) {
    const ChangeLog::Changes& changes = log_.changes();
    Loss loss{.lost = std::max<uint64_t>(changes.size(), 1)};
    if (!changes.empty()) loss.first = described(changes.begin()->second.transaction);
    log_.remove_from(log_.changes().begin());
    all_are_durable();
    known_ = {.incarnation = incarnation, .last = {}};
    named_ = incarnation;
    lose(loss);
}

void DeferredStore::lose(const Loss& loss) {
    if (loss.lost > 0) {
        ++losses_;
        is_untold_ = true;
    }
    tell_(loss);
}

}  // namespace ros2s::fs
