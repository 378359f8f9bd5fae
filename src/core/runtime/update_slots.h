// UpdateSlots: names for a client's updates. An update takes a slot and its next number, and keeps
// them until it has its reply, over connections, servers and restarts. A slot has one update at a
// time, so a server need keep only one reply for each.
//
// The slot that was used last is the next one, so that a client uses few of them. A slot whose
// call ended without a reply is used again after all others: its update may still run, and the
// server would let the slot's next update wait for it.
//
// Owned by the sender. Several senders of one client instance have different slots. Used on one
// core.
#pragma once
#include <vector>

#include "ros2s/base/check.h"
#include "ros2s/runtime/call.h"
#include "ros2s/runtime/sync.h"

namespace ros2s {

class UpdateSlots {
  public:
    // `count` slots from that of `first` on, whose client, owner and digest all names have. More
    // updates than that wait.
    UpdateSlots(Reactor& reactor, const UpdateName& first, uint32_t count)
        : first_(first), free_count_(reactor, count), sequences_(count) {
        for (uint32_t i = 0; i < count; ++i) free_.push_back(count - 1 - i);
    }

    class [[nodiscard]] HeldSlot {
      public:
        HeldSlot(UpdateSlots& owner, uint32_t slot) : owner_(owner), slot_(slot) {
            ++owner_.sequences_[slot_];
        }
        HeldSlot& operator=(HeldSlot&&) = delete;
        ~HeldSlot() {
            owner_.free_.insert(rests_ ? owner_.free_.begin() : owner_.free_.end(), slot_);
            owner_.free_count_.release();
        }
        // The call has failed.
        void failed(const Error& error) { rests_ = rests_ || may_run_on(error.code); }
        [[nodiscard]] UpdateName id() const {
            UpdateName name = owner_.first_;
            name.slot += slot_;
            name.sequence = owner_.sequences_[slot_];
            return name;
        }

      private:
        UpdateSlots& owner_;
        uint32_t slot_;
        bool rests_ = false;
    };

    // co_await slots.wait(), then take(): a HeldSlot cannot move, so the two are apart.
    [[nodiscard]] auto wait() { return free_count_.acquire(); }
    [[nodiscard]] HeldSlot take() {
        ROS2S_CHECK(!free_.empty());
        const uint32_t slot = free_.back();
        free_.pop_back();
        return HeldSlot(*this, slot);
    }
    // If one is known to be free.
    [[nodiscard]] HeldSlot take_at_once() {
        ROS2S_CHECK(free_count_.try_acquire());
        return take();
    }

  private:
    const UpdateName first_;
    Semaphore free_count_;
    std::vector<uint64_t> sequences_;  // of each slot's last update
    std::vector<uint32_t> free_;
};

}  // namespace ros2s
