// PinTable: the pins of a store. A pinned object cannot be punched by other holders. Pins exist in
// memory only and end with the session of their holder.
//
//     pin ──► update: pinned (a write of the holder) ──► unpin
//             update: unpinned (a punch by another holder) is refused while the pin exists
//     update: pin (a creation) pins, too
//
// Sessions are those of a server's clients (ObjectStore::session_ended()). Session 0 is this
// process. When a session ends, its pins stay for a while, because its client may reconnect in
// another session and pin again. A store that was just opened has lost all pins. For a while it
// refuses `unpinned` in the containers of former holders that have not yet pinned again.
//
// A session that is over may leave very many pins. They have no effect, and are dropped in slices:
// by session_ended(), add() and judge(), so that they go faster than new ones come.
//
// Used on one core. Nothing suspends. Bounded in all, per session, and per owner: an owner with
// many sessions has no more pins than it leaves free, so n owners that take all they get leave 1/(n
// + 1). The bounds of sessions and owners do not apply to this process.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <span>
#include <tuple>

#include "ros2s/base/metrics.h"
#include "ros2s/object/object_store.h"

namespace ros2s::object {

class PinTable {
  public:
    static constexpr size_t pins_max = size_t{1} << 20;
    static constexpr size_t session_pins_max = size_t{1} << 18;
    static constexpr size_t slice_of_pins = 256;

    // Until this time the condition `unpinned` fails for everybody; or, with holders, in the
    // containers of these, for all others.
    void await_all(Time until) { all_until_ = until; }
    // Locks are awaited no longer than this.
    void await_claims(Time until) { claims_until_ = until; }
    // `ended`: those of them whose sessions had ended: what they had, others may have had since.
    void await(std::span<const HolderName> holders, std::span<const HolderName> ended, Time until);
    // Awaited holders of exclusive mounts: others are not admitted until then.
    void await_exclusive(std::span<const HolderName> holders, Time until);
    // One is awaited. On every core.
    [[nodiscard]] bool awaits_exclusive() const { return exclusive_.value() > 0; }
    // It has come back, or cannot any more.
    void forget_exclusive(ContainerId container);
    // A client uses the container. Errors: busy (detail: a moment; an exclusive one is awaited).
    [[nodiscard]] Result<> admit(ContainerId container, const Uuid& client, Time now);
    // The holder was exclusive before the store was opened, and nobody was admitted
    // since.
    [[nodiscard]] bool may_claim_exclusive(ContainerId container, const Holder& holder,
                                           Time now) const;
    // The holder has pinned again what it had. True: meanwhile a punch was refused in the
    // container, because a holder was awaited.
    bool pinned_again(ContainerId container, const Holder& holder);
    // The holder may claim what it had before the store was opened: nobody else has had it since.
    [[nodiscard]] bool may_claim(ContainerId container, const Holder& holder, Time now) const;
    // Another holder may have had something before the store was opened, and has not said yet that
    // it has it again.
    [[nodiscard]] bool awaits_another(ContainerId container, const Holder& holder, Time now) const;
    // The same, and it may claim locks.
    [[nodiscard]] bool awaits_claims(ContainerId container, const Holder& holder, Time now) const {
        return now < claims_until_ && awaits_another(container, holder, now);
    }
    // The same as it was when the store was opened.
    [[nodiscard]] bool awaited_another(ContainerId container, const Holder& holder, Time now) const;
    // Another holder has pinned something in the container.
    [[nodiscard]] bool has_another(ContainerId container, const Holder& holder);
    // Idempotent. Errors: no_memory (detail: the limit).
    [[nodiscard]] Result<> add(ContainerId container, ObjectId object, const Holder& holder);
    [[nodiscard]] bool has(ContainerId container, ObjectId object, const Holder& holder) const;
    // True: it was the last pin, and a punch had been refused because of it.
    bool remove(ContainerId container, ObjectId object, const Holder& holder);
    // Checks the transaction's conditions about pins. Errors: condition_failed (detail = the
    // first), no_memory (no room for those that it pins; detail: the limit).
    [[nodiscard]] Result<> judge(ContainerId container, const Transaction& transaction, Time now);
    // Adds those that the transaction pins. Nothing may change between judge() and this.
    void take(ContainerId container, const Transaction& transaction);
    // The session's pins bind others until `until`.
    void session_ended(uint64_t session, Time now, Time until);
    // With those that are to be dropped.
    [[nodiscard]] size_t count() const { return count_; }
    [[nodiscard]] bool has_pins(const HolderName& holder) const {
        return holders_.contains(holder);
    }

  private:
    using Key = std::pair<ContainerId, ObjectId>;
    struct BySession {
        bool operator()(const Holder& a, const Holder& b) const {
            return std::tie(a.session, a.client, a.owner) < std::tie(b.session, b.client, b.owner);
        }
    };
    struct Object {
        std::set<Holder, BySession> holders;  // clients name themselves: there may be very many
        bool is_wanted = false;               // a punch was refused
    };
    struct Session {
        Uuid owner;
        std::set<std::pair<Key, Uuid>> pins;
        Time until = Time::max();
    };
    // The limit that `more` pins of the holder's session would exceed; 0: none.
    [[nodiscard]] uint64_t limit_met(const Holder& holder, size_t more) const;
    [[nodiscard]] bool is_free(const Object& object, const Holder& holder, Time now) const;
    // A punch is refused if another holder is awaited.
    [[nodiscard]] bool spares_for_another(ContainerId container, const Holder& holder, Time now);
    bool drop(const Key& key, const Holder& holder);
    void drop_some();

    struct Awaited {
        std::set<HolderName> holders;
        std::set<HolderName> returned;  // have pinned again
        std::set<HolderName> ended;
        std::optional<HolderName> exclusive;  // was so, and nobody was admitted since
        bool is_wanted = false;               // a punch was refused
    };
    Time all_until_{}, awaited_until_{}, exclusive_until_{}, claims_until_ = Time::max();
    std::map<ContainerId, Awaited> awaited_;
    Counter exclusive_;  // of them, with `exclusive`
    Time now_{};         // as the owner said last
    size_t count_ = 0;
    std::map<Key, Object> objects_;
    std::map<uint64_t, Session> sessions_;
    std::set<std::pair<Time, uint64_t>> ended_;  // of them, by `until`
    std::map<Uuid, size_t> owners_;              // their pins
    std::map<HolderName, size_t> holders_;       // their pins
};

}  // namespace ros2s::object
