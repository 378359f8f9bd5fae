// Replies: the stored answer to the last update of each request slot, so that a retry gets the
// answer instead of a second execution. Bounded: the slot whose last update is the oldest goes
// first, and from then on an unknown slot gets `stale` for what may be a repetition.
//
// Changed where a group is applied, alone, so that recovery arrives at the same replies. Does not
// suspend.
#pragma once
#include <list>
#include <map>
#include <optional>
#include <vector>

#include "ros2s/engine/format/values.h"

namespace ros2s::engine {

class Replies {
  public:
    explicit Replies(size_t most) : most_(most) {}

    // The answer to a repetition; nothing: go ahead. Errors: stale.
    [[nodiscard]] Result<std::optional<ReplyValue>> look_up(const object::OperationId& id,
                                                            bool is_new) const;
    void store(const object::OperationId& id, const ReplyValue& reply);

    // From the index, in any order; then finish_load().
    void load(const Uuid& client, uint32_t slot, const ReplyValue& reply);
    void finish_load(uint64_t dropped_upto);
    [[nodiscard]] uint64_t dropped_upto() const { return dropped_upto_; }

    // Calls visit(client, slot, reply or null) for what changed since the last call.
    template <class Visit>
    void take_changes(Visit visit) {
        for (const Slot& slot : changed_) {
            const auto found = slots_.find(slot);
            if (found != slots_.end()) found->second.changed = false;
            visit(slot.client, slot.slot, found == slots_.end() ? nullptr : &found->second.reply);
        }
        changed_.clear();
    }
    [[nodiscard]] size_t count() const { return slots_.size(); }
    [[nodiscard]] size_t memory_bytes() const { return slots_.size() * 160; }

  private:
    struct Slot {
        Uuid client;
        uint32_t slot = 0;
        friend auto operator<=>(const Slot&, const Slot&) = default;
    };
    struct Stored {
        ReplyValue reply;
        bool changed = false;
        std::list<Slot>::iterator place;
    };
    void trim();

    size_t most_;
    std::map<Slot, Stored> slots_;
    std::list<Slot> oldest_first_;
    std::vector<Slot> changed_;
    uint64_t dropped_upto_ = 0;
};

}  // namespace ros2s::engine
