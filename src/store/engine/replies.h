// Replies: the stored reply to the last update of each request slot, so that a retry gets the reply
// instead of a second execution.
//
// Names belong to owners: clients of different owners are different, and do not use each other's
// share. Owners whose UUIDs begin with the same bytes (object::sender_bytes) belong to one sender,
// which can name any number of owners. A client's replies are kept together, for at least `lease`
// after its last update by the pool's own wall time, and longer while there is room. Then all of
// them are dropped at once. A later request of that owner from an unknown client that may be a
// repetition is `expired`: it may have been done. An owner that has used up its share, with all
// clients within their lease, gets no new slots (`busy`). Neither do the owners of a sender that
// has more slots than are free. A sender with few slots therefore always finds room.
//
// Changed only when a group is applied. Recovery arrives at the same replies, of those within their
// lease. Does not suspend.
//
// Invariants
// - Either all slots of a client are stored or none, unless the client returned after they were
//   dropped. Then it is not `whole`, and a possible repetition in an unknown slot of it is
//   `expired`.
// - When an owner loses its last client, the mark of its dropped replies applies to all unknown
//   owners.
#pragma once
#include <cstring>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "ros2s/engine/format/keys.h"
#include "ros2s/engine/format/values.h"

namespace ros2s::engine {

struct RepliesOptions {
    size_t per_owner_max = 65536;  // slots
    size_t slots_max = 262144;     // of all owners
    Duration lease = std::chrono::minutes(2);
};

class Replies {
  public:
    explicit Replies(RepliesOptions options) : options_(options) {}

    // The slot of an update of the container. Creations and destructions of containers have none.
    [[nodiscard]] static ReplyKey key_of(const UpdateName& id, object::ContainerId container) {
        return {.owner = id.owner, .client = id.client, .container = container, .slot = id.slot};
    }

    // The reply to a repetition. Empty: execute the request. `id` has its digest. Errors: stale
    // (its slot had a later request), name_taken (its slot had this number for another request or
    // owner), expired, busy.
    [[nodiscard]] Result<std::optional<ReplyValue>> look_up(const UpdateName& id,
                                                            object::ContainerId container,
                                                            bool is_new, WallTime now) const;
    void store(const ReplyKey& key, ReplyValue reply);

    // Values of the index, in any order; then finish_load().
    void load(const ReplyKey& key, const ReplyValue& reply);
    void load_owner(const Uuid& owner, uint64_t dropped_upto);
    void finish_load(uint64_t dropped_upto);
    // The greatest epoch of the replies that were dropped with their owner.
    [[nodiscard]] uint64_t dropped_upto() const { return dropped_upto_; }

    // Calls visit(key, reply or null) and visit_owner(owner, dropped_upto or nothing) for the
    // changes since the last call.
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
    static constexpr size_t slot_bytes = 224;  // approximate memory of one
    [[nodiscard]] size_t memory_bytes() const { return count_ * slot_bytes; }

  private:
    using SlotKey = std::pair<object::ContainerId, uint32_t>;
    struct Stored {
        ReplyValue reply;
        bool changed = false;
    };
    struct Client {
        std::map<SlotKey, Stored> slots;
        WallTime last{};  // of its latest update
        bool whole = false;
        std::list<Uuid>::iterator place;
    };
    struct ClientsOfOwner {
        std::map<Uuid, Client> clients;
        std::list<Uuid> oldest_first;  // of the clients
        size_t slots = 0;
        uint64_t dropped_upto = 0;    // the greatest epoch of its dropped replies
        std::optional<WallTime> age;  // its key in by_age_
    };
    [[nodiscard]] static uint64_t sender_of(const Uuid& owner) {
        uint64_t sender = 0;
        static_assert(sizeof sender == object::sender_bytes);
        std::memcpy(&sender, owner.bytes.data(), sizeof sender);
        return sender;
    }
    [[nodiscard]] Stored* find(const ReplyKey& key);
    [[nodiscard]] bool is_over(const ClientsOfOwner& owner, WallTime now) const;
    [[nodiscard]] bool has_room(const Uuid& owner, const ClientsOfOwner* known, WallTime now) const;
    [[nodiscard]] bool leaves_enough(size_t all, size_t of_sender, size_t of_owner) const;
    [[nodiscard]] const Uuid* find_over(WallTime now) const;
    void set_age(const Uuid& id, ClientsOfOwner& owner);
    void trim(const Uuid& owner, WallTime now);
    void drop_oldest(std::map<Uuid, ClientsOfOwner>::iterator owner);

    RepliesOptions options_;
    std::map<Uuid, ClientsOfOwner> owners_;
    // By the last update of their oldest client, up to a sixteenth of the lease too early.
    std::set<std::pair<WallTime, Uuid>> by_age_;
    std::map<uint64_t, size_t> senders_;  // slots of their owners
    size_t count_ = 0;
    std::vector<ReplyKey> changed_;
    std::vector<Uuid> changed_owners_;
    uint64_t dropped_upto_ = 0;
};

}  // namespace ros2s::engine
