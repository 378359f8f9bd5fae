// DeferredStore: the store of a mount whose container has durability=fsync. It says with each
// request which client asks, so that the store shows the client its own changes before they are
// durable, and those of others only then. After a loss of power of the store's server it repeats
// the changes that were acknowledged and are lost.
//
//     a request ─► expired: the store was started again ─► learn: sync() ─┬─► nothing is lost
//        ▲                                                                ├─► busy: repeat()
//        └───────────────────────────── asked again ◄─────────────────────┘   the rest is lost:
//        told
//
// Part of a mount, which owns it. The store below outlives it. Used on the mount's core.
//
// Invariants
// - Requests name the incarnation of the store that the mount knows, and another one refuses them.
//   So nothing new is done before all that was acknowledged was repeated. Until the store knows
//   that, they name the earlier one: of a client that repeats, the store lets a fetch pass.
// - No deferred change is made after a loss before the loss was told.
#pragma once
#include <functional>
#include <memory>

#include "change_log.h"
#include "ros2s/object/client_call.h"
#include "ros2s/object/forwarding_store.h"
#include "ros2s/runtime/sync.h"
#include "unsynced.h"

namespace ros2s::fs {

class DeferredStore final : public object::ForwardingStore {
  public:
    // What a loss of power took back.
    struct Loss {
        uint64_t repeated = 0;
        uint64_t lost = 0;    // at least; 0: none
        std::string first{};  // of the lost ones, for people; empty: not known
    };
    // `tell` is called after each loss. `memory`: for the log of changes, which counts for
    // the tenant; null: its own.
    DeferredStore(ObjectStore& below, Reactor& reactor, object::ContainerId container,
                  const object::Holder& holder, ChangeLogMemory* memory, uint64_t tenant,
                  std::shared_ptr<Unsynced> unsynced, std::function<void(const Loss&)> tell)
        : ForwardingStore(below),
          reactor_(reactor),
          container_(container),
          holder_(holder),
          tell_(std::move(tell)),
          log_(memory, tenant, holder.client),
          unsynced_(unsynced != nullptr ? std::move(unsynced) : std::make_shared<Unsynced>()),
          turn_(reactor, 1) {}

    // How often changes were lost. Files that were open then tell it once each.
    [[nodiscard]] uint64_t losses() const { return losses_; }
    // From now on reads and changes fail with io: what the mount has may be old.
    void refuse_all() { refuses_all_ = true; }
    [[nodiscard]] bool refuses_all() const { return refuses_all_; }
    // The last acknowledged change may not be durable, or the store was not asked yet.
    [[nodiscard]] bool is_unsure() const {
        return known_.last.value != 0 || known_.incarnation == 0;
    }
    [[nodiscard]] const Unsynced& unsynced() const { return *unsynced_; }
    // The incarnation that the mount knows. 0: none yet.
    [[nodiscard]] uint64_t store_start() const { return known_.incarnation; }

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
    // As ObjectStore::sync(). Before the first update. Errors also: io (changes are lost, and
    // nobody was told before).
    Task<Result<>> make_durable(const Call& call);
    // The same, but the next change tells a loss.
    Task<Result<>> learn(const Call& call);

  private:
    [[nodiscard]] object::ClientCall asked_by_client(const Call& call) const {
        return {call, {.id = holder_.client, .incarnation = named_}};
    }
    template <class Ask>
    auto ask(const Call& call, Ask ask) -> std::invoke_result_t<Ask, const Call&>;
    [[nodiscard]] bool can_defer(const object::Transaction& transaction) const;
    Task<Result<object::Commit>> send(const Call& call, const object::Transaction& transaction);
    Task<Result<object::Commit>> send_as_it_is(const Call& call,
                                               const object::Transaction& transaction);
    Task<Result<object::Commit>> send_changed(const Call& call,
                                              const object::Transaction& transaction);
    // `incarnation`: that the request named.
    Task<Result<>> acknowledged(const Call& call, const object::Transaction& transaction,
                                const object::Commit& commit, uint64_t incarnation);
    void note(const object::Transaction& transaction, object::Epoch epoch, uint64_t incarnation);
    Task<Result<>> repeat(const Call& call, uint64_t incarnation);
    Task<Result<bool>> repeat(const Call& call, uint64_t incarnation,
                              ChangeLog::Changes::iterator change);
    void all_are_durable();  // or lost
    void lose_all(uint64_t incarnation);
    void lose(const Loss& loss);
    // True: users were not told of a loss yet. Now they are.
    [[nodiscard]] bool tells_loss() { return std::exchange(is_untold_, false); }

    Reactor& reactor_;
    const object::ContainerId container_;
    const object::Holder holder_;
    const std::function<void(const Loss&)> tell_;
    object::Acknowledged known_;
    uint64_t named_ = 0;  // the incarnation in requests
    ChangeLog log_;
    const std::shared_ptr<Unsynced> unsynced_;
    // A change up to this one may be done, and is not in the log. Until a later one is durable,
    // each is sent as durable: what depends on that change could not be repeated.
    uint64_t unknown_upto_ = 0;
    uint64_t sent_ = 0;
    Semaphore turn_;  // to repeat
    bool is_untold_ = false, refuses_all_ = false;
    uint64_t losses_ = 0;
};

}  // namespace ros2s::fs
