// Replies: the stored answer to the last update of each request slot, so that a retry gets the
// answer instead of a second execution.
//
// Names belong to owners: a client of one owner is not that of another, nor does it fill what is
// kept for it. A client's replies are kept together, for `lease` at least after its last update by
// the pool's own wall time, and longer while there is room. Then all of them go at once, and what
// comes again of that owner from a client that is not known is `expired`: it may have been done.
// Who has used up what is kept for him, with clients that are not over their lease, is refused new
// slots (`busy`), and so is who has more of them than are free: those who have few always find
// room.
//
// Changed where a group is applied, alone, so that recovery arrives at the same replies. Does not
// suspend.
//
// Invariants
// - A client's slots are all there, or none, unless it came back after they had gone; then it is
//   not `whole`, and an unknown slot of it is `expired` for what may be a repetition.
// - An owner has clients; what is known of one without goes to all that are not known.
#pragma once
#include <list>
#include <map>
#include <optional>
#include <vector>

#include "ros2s/engine/format/keys.h"
#include "ros2s/engine/format/values.h"

namespace ros2s::engine {

struct RepliesOptions {
    size_t per_owner_max = 65536;  // slots
    size_t slots_max = 262144;     // of all owners
    Duration lease = std::chrono::minutes(2);
    // Rules that tests may remove (commit_rules.h).
    bool expire_unknown = true, keep_for_lease = true;
};

class Replies {
  public:
    explicit Replies(RepliesOptions options) : options_(options) {}

    // The slot that an update of the container has; of containers' creations and destructions: of
    // none.
    [[nodiscard]] static ReplyKey key_of(const object::OperationId& id,
                                         object::ContainerId container) {
        return {.owner = id.owner, .client = id.client, .container = container, .slot = id.slot};
    }

    // The answer to a repetition; nothing: go ahead. `id` has its digest. Errors: stale (its slot
    // has had a later one), name_taken (its slot has had this number, for something else or from
    // somebody else), expired, busy.
    [[nodiscard]] Result<std::optional<ReplyValue>> look_up(const object::OperationId& id,
                                                            object::ContainerId container,
                                                            bool is_new, WallTime now) const;
    void store(const ReplyKey& key, ReplyValue reply);

    // From the index, in any order; then finish_load().
    void load(const ReplyKey& key, const ReplyValue& reply);
    void load_owner(const Uuid& owner, uint64_t dropped_upto);
    void finish_load(uint64_t dropped_upto);
    // The greatest epoch of the replies that are gone with their owner.
    [[nodiscard]] uint64_t dropped_upto() const { return dropped_upto_; }

    // Calls visit(key, reply or null) and visit_owner(owner, dropped_upto or nothing) for what
    // changed since the last call.
    template <class Visit, class VisitOwner>
    void take_changes(Visit visit, VisitOwner visit_owner) {
        for (const ReplyKey& key : changed_) {
            Stored* const stored = find(key);
            if (stored != nullptr) stored->changed = false;
            visit(key, stored == nullptr ? nullptr : &stored->reply);
        }
        changed_.clear();
        for (const Uuid& owner : changed_owners_) {
            const auto found = owners_.find(owner);
            visit_owner(owner, found == owners_.end() ? std::nullopt
                                                      : std::optional(found->second.dropped_upto));
        }
        changed_owners_.clear();
    }
    [[nodiscard]] size_t count() const { return count_; }
    static constexpr size_t slot_bytes = 224;  // of memory, about
    [[nodiscard]] size_t memory_bytes() const { return count_ * slot_bytes; }

  private:
    using Slot = std::pair<object::ContainerId, uint32_t>;
    struct Stored {
        ReplyValue reply;
        bool changed = false;
    };
    struct Client {
        std::map<Slot, Stored> slots;
        WallTime last{};  // of its latest update
        bool whole = false;
        std::list<Uuid>::iterator place;
    };
    struct Owner {
        std::map<Uuid, Client> clients;
        std::list<Uuid> oldest_first;  // of the clients
        size_t slots = 0;
        uint64_t dropped_upto = 0;  // the greatest epoch of its replies that are gone
    };
    [[nodiscard]] Stored* find(const ReplyKey& key);
    [[nodiscard]] bool is_over(const Owner& owner, WallTime now) const;
    [[nodiscard]] bool has_room(const Owner* owner, WallTime now) const;
    void trim(const Uuid& owner, WallTime now);
    void drop_oldest(std::map<Uuid, Owner>::iterator owner);

    RepliesOptions options_;
    std::map<Uuid, Owner> owners_;
    size_t count_ = 0;
    std::vector<ReplyKey> changed_;
    std::vector<Uuid> changed_owners_;
    uint64_t dropped_upto_ = 0;
};

}  // namespace ros2s::engine
