// OperationSlots: the request slots of one mounted file system. An update borrows a slot
// (runtime/update_slots.h), which gives it a unique name and a transaction whose vectors keep their
// capacity, so the steady state allocates nothing.
//
// Used on one core. The holder of a slot never waits for another one. It may wait for the work that
// has the reserved slot.
#pragma once
#include <vector>

#include "ros2s/base/digest.h"
#include "ros2s/object/object_store.h"
#include "ros2s/runtime/update_slots.h"

namespace ros2s::fs {

class OperationSlots {
  public:
    // The names are unique: the client is drawn here, and so is the digest of all its requests. A
    // stored reply to another client's request is therefore never taken for a reply to one of
    // these. `owner` names the reply space that they use. It is the container's, so mounts of other
    // containers in the same process lose no replies.
    // `deferred`: all transactions are (object::Transaction), but the reserved slot's.
    OperationSlots(Reactor& reactor, const Uuid& owner, uint32_t count, bool deferred = false)
        : OperationSlots(reactor,
                         {.client = Uuid::make(reactor.secrets()),
                          .owner = owner,
                          .digest = Digest().add(reactor.secrets().next()).value()},
                         count, deferred) {}

    // A borrowed slot with an empty transaction. The destructor returns it.
    class [[nodiscard]] HeldSlot {
      public:
        HeldSlot(UpdateSlots& slots, std::vector<object::Transaction>& transactions, auto take)
            : slot_((slots.*take)()), transaction_(transactions[slot_.id().slot]) {
            transaction_.conditions.clear();
            transaction_.operations.clear();
            name(slot_.id(), true);
        }
        // Replaces the slot's name by the name of a call that may be repeated.
        void name(const UpdateName& id, bool is_new) {
            transaction_.id = id;
            transaction_.is_new = is_new;
        }
        [[nodiscard]] bool is_own() const { return transaction_.id == slot_.id(); }
        void require(object::Condition condition) {
            transaction_.conditions.push_back(std::move(condition));
        }
        void add(object::Operation operation) {
            transaction_.operations.push_back(std::move(operation));
        }
        // Of the operation that was added last.
        [[nodiscard]] object::Checksums& checksums() {
            return transaction_.operations.back().checksums;
        }
        [[nodiscard]] const object::Transaction& transaction() const { return transaction_; }
        // The request has failed.
        void failed(const Error& error) { slot_.failed(error); }

      private:
        UpdateSlots::HeldSlot slot_;
        object::Transaction& transaction_;
    };

    [[nodiscard]] object::Holder holder() const { return transactions_.front().holder; }

    // co_await slots.wait(), then take(). They are separate because a HeldSlot cannot move.
    [[nodiscard]] auto wait() { return slots_.wait(); }
    [[nodiscard]] HeldSlot take() { return HeldSlot(slots_, transactions_, &UpdateSlots::take); }
    // Needs no wait(). One user at a time.
    [[nodiscard]] HeldSlot take_reserved() {
        return HeldSlot(reserved_, transactions_, &UpdateSlots::take_at_once);
    }

  private:
    OperationSlots(Reactor& reactor, const UpdateName& first, uint32_t count, bool deferred)
        : slots_(reactor, first, count),
          reserved_(reactor, reserved(first, count), 1),
          transactions_(count + 1) {
        for (auto& each : transactions_) {
            each.holder = {.client = first.client};
            each.deferred = deferred;
        }
        // Its user works in the background, and nobody would hear of a loss.
        transactions_.back().deferred = false;
    }
    static UpdateName reserved(UpdateName first, uint32_t slot) {
        first.slot = slot;
        return first;
    }

    UpdateSlots slots_, reserved_;
    std::vector<object::Transaction> transactions_;  // by slot; the last one is the reserved one's
};

}  // namespace ros2s::fs
