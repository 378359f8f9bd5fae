// OperationSlots: the request slots of one mounted file system. An update borrows a slot. The slot
// gives it a unique name (client instance, slot, sequence) and a transaction whose vectors keep
// their capacity, so the steady state allocates nothing. As in rpc::UpdateSlots, the slot that was
// used last is the next one, and one whose request may still run is used again after all others.
//
// Used on one core. The holder of a slot never waits for another one. It may wait for the work that
// has the reserved slot.
#pragma once
#include <deque>
#include <vector>

#include "ros2s/base/check.h"
#include "ros2s/base/digest.h"
#include "ros2s/object/object_store.h"
#include "ros2s/runtime/call.h"
#include "ros2s/runtime/sync.h"

namespace ros2s::fs {

class OperationSlots {
  public:
    // The names are unique: the client is drawn here, and so is the digest of all its requests. A
    // stored reply to another client's request is therefore never taken for a reply to one of
    // these. `owner` names the reply space that they use. It is the container's, so mounts of other
    // containers in the same process lose no replies.
    OperationSlots(Reactor& reactor, const Uuid& owner, uint32_t count)
        : free_count_(reactor, count) {
        const Uuid client = Uuid::make(reactor.secrets());
        const uint64_t digest = Digest().add(reactor.secrets().next()).value();
        for (uint32_t i = 0; i <= count; ++i) {
            slots_.push_back({});
            slots_.back().own = {
                .client = client, .slot = i, .sequence = 0, .owner = owner, .digest = digest};
            slots_.back().transaction.holder = {.client = client};
            if (i < count) free_.push_back(count - 1 - i);
        }
    }

    struct RequestSlot {
        object::OperationId own;
        object::Transaction transaction;
    };

    // A borrowed slot with an empty transaction. The destructor returns it.
    class [[nodiscard]] HeldSlot {
      public:
        HeldSlot(OperationSlots& owner, RequestSlot& slot) : owner_(owner), slot_(slot) {
            restart();
        }
        HeldSlot(const HeldSlot&) = delete;
        HeldSlot& operator=(const HeldSlot&) = delete;
        ~HeldSlot() { owner_.give_back(slot_, rests_); }

        // Empties the transaction and gives it the slot's next sequence number.
        void restart() {
            slot_.transaction.conditions.clear();
            slot_.transaction.operations.clear();
            ++slot_.own.sequence;
            name(slot_.own, true);
        }
        // Replaces the slot's name by the name of a call that may be repeated.
        void name(const object::OperationId& id, bool is_new) {
            slot_.transaction.id = id;
            slot_.transaction.is_new = is_new;
        }
        [[nodiscard]] bool is_own() const { return slot_.transaction.id == slot_.own; }
        void require(object::Condition condition) {
            slot_.transaction.conditions.push_back(std::move(condition));
        }
        void add(object::Operation operation) {
            slot_.transaction.operations.push_back(std::move(operation));
        }
        // Of the operation that was added last.
        [[nodiscard]] object::Checksums& checksums() {
            return slot_.transaction.operations.back().checksums;
        }
        [[nodiscard]] const object::Transaction& transaction() const { return slot_.transaction; }
        // The request has failed.
        void failed(const Error& error) { rests_ = rests_ || may_run_on(error.code); }

      private:
        OperationSlots& owner_;
        RequestSlot& slot_;
        bool rests_ = false;
    };

    [[nodiscard]] object::Holder holder() const { return slots_.front().transaction.holder; }

    // co_await slots.wait(), then take(). They are separate because a HeldSlot cannot move.
    [[nodiscard]] auto wait() { return free_count_.acquire(); }
    [[nodiscard]] HeldSlot take() {
        ROS2S_CHECK(!free_.empty());
        RequestSlot& slot = slots_[free_.back()];
        free_.pop_back();
        return HeldSlot(*this, slot);
    }
    // Needs no wait(). One user at a time.
    [[nodiscard]] HeldSlot take_reserved() { return HeldSlot(*this, slots_.back()); }

  private:
    void give_back(const RequestSlot& slot, bool rests) {
        if (&slot == &slots_.back()) return;
        free_.insert(rests ? free_.begin() : free_.end(), slot.own.slot);
        free_count_.release();
    }

    Semaphore free_count_;
    std::deque<RequestSlot> slots_;
    std::vector<uint32_t> free_;
};

}  // namespace ros2s::fs
