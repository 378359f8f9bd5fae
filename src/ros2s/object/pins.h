// PinTable: which objects somebody uses, so that nobody else punches them. What a store keeps of
// pins, in memory alone: they end with their holder's session.
//
//     pin ──► update: pinned (a write of who has it) ──► unpin
//             update: unpinned (a punch by somebody else) is refused while it is there
//
// Sessions are those of a server's clients (ObjectStore::session_ended()); 0 is this process. One
// that ends keeps its pins for a while: its client may come again in another, and pin anew. So it
// is with a store that was opened a moment ago, and has forgotten all pins (the grace).
//
// Used on one core. Nothing suspends. Bounded: in all, and per session.
#pragma once
#include <map>
#include <set>
#include <vector>

#include "ros2s/object/object_store.h"

namespace ros2s::object {

class PinTable {
  public:
    static constexpr size_t pins_max = size_t{1} << 20;
    static constexpr size_t session_pins_max = size_t{1} << 18;  // not of this process

    // Until then nothing is unpinned.
    void begin_grace(Time until) { grace_until_ = until; }
    // Idempotent. Errors: no_memory (detail: the bound).
    [[nodiscard]] Result<> add(ContainerId container, ObjectId object, const Holder& holder);
    // True: it was the last one, and a punch had been refused for it.
    bool remove(ContainerId container, ObjectId object, const Holder& holder);
    // The transaction's conditions about pins. Errors: condition_failed (detail = the first).
    [[nodiscard]] Result<> judge(ContainerId container, const Transaction& transaction, Time now);
    // Its pins stay until `until`.
    void session_ended(uint64_t session, Time now, Time until);
    [[nodiscard]] size_t count() const { return count_; }

  private:
    using Place = std::pair<ContainerId, ObjectId>;
    struct Object {
        std::vector<Holder> holders;
        bool is_wanted = false;  // a punch was refused
    };
    struct Session {
        std::set<std::pair<Place, Uuid>> pins;
        Time until = Time::max();
    };
    [[nodiscard]] bool is_free(Object& object, const Holder& holder, Time now);
    bool drop(const Place& place, const Holder& holder);

    Time grace_until_{};
    size_t count_ = 0;
    std::map<Place, Object> objects_;
    std::map<uint64_t, Session> sessions_;
};

}  // namespace ros2s::object
