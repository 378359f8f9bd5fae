// LockTable: the advisory locks of a store's objects, as fcntl(2) and flock(2) define them.
//
// There are two spaces. Locks of byte ranges (POSIX and open file descriptions) conflict with each
// other; locks by flock(2) cover the whole object and conflict among themselves. Locks of one owner
// never conflict: a lock replaces what its owner has in its range. A lock by flock(2) that is
// refused ends the one that its owner had, as on Linux. Nobody waits here: a caller that wants to
// wait asks again.
//
// A lock of a container is of another kind: nobody else uses the container while its session lives.
// It is granted only if nobody else does. The holder pins the nil object with it, and makes that a
// condition of its transactions: none takes effect after the lock is lost. It cannot be claimed if
// somebody was admitted when its session was over. After a restart nobody is for a moment.
//
// A process that waits for a range says so (LockRequest::waits). It is known to wait until it asks
// for the object otherwise, or not again for lock_waits_for. If it would wait for itself, over
// locks of any holders and others that wait, it is refused with EDEADLK, as on Linux.
//
// An owner is a number that a holder (a mount) chose. Locks exist in memory only. The locks of a
// session that ended exclude nobody. Its client may come back in another session and claim them for
// a while, unless somebody else has taken one that they would exclude. After a restart a holder
// claims what it had; until it has said that it is done (PinTable), others get no locks in its
// containers.
//
// Used on one core. Nothing suspends. Bounded in all, per object and session, and per owner of
// sessions: as PinTable.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "ros2s/base/metrics.h"
#include "ros2s/object/object_store.h"
#include "ros2s/object/pins.h"

namespace ros2s::object {

// Of different owners.
[[nodiscard]] bool exclude_each_other(const Lock& a, const Lock& b);
// `locks` is what one owner has of an object in one space. `lock` replaces what is in its range,
// and is joined with locks of its mode that it touches.
void set_range(std::vector<Lock>& locks, const Lock& lock);
// With this lock of the whole, its owner's old one ends even if this one is refused (flock(2)).
[[nodiscard]] bool is_upgrade(const std::vector<Lock>& own, const Lock& lock);
// What to set so that an owner has `own` again, if it is unknown whether `unknown` was set.
[[nodiscard]] std::vector<Lock> steps_back(const std::vector<Lock>& own, const Lock& unknown);

// A client that waits asks again sooner.
inline constexpr Duration lock_waits_for = std::chrono::milliseconds(500);

class LockTable {
  public:
    static constexpr size_t waits_max = size_t{1} << 16;
    // Longer cycles are not found, nor those behind more locks than one object may have.
    static constexpr size_t cycle_max = 32;
    static constexpr size_t locks_max = size_t{1} << 18;
    static constexpr size_t session_locks_max = size_t{1} << 16;
    static constexpr size_t object_locks_max = 2048;
    static constexpr size_t cycle_locks_max = object_locks_max;
    static constexpr size_t slice_of_locks = 256;

    // `pins` knows which holders are awaited. It outlives this.
    explicit LockTable(PinTable& pins) : pins_(pins) {}
    // As ObjectStore::lock().
    [[nodiscard]] Result<std::optional<Lock>> lock(ContainerId container, const Holder& holder,
                                                   const LockRequest& request, Time now);
    // Some container is locked, or was before a restart. On every core.
    [[nodiscard]] bool has_container() const {
        return containers_.value() > 0 || pins_.awaits_exclusive();
    }
    // A client uses the container. Errors: busy (another one has it exclusively; detail: only for a
    // moment after a restart).
    [[nodiscard]] Result<> admit(ContainerId container, const Uuid& client, Time now);
    // The holder's session lives, and has the container exclusively.
    [[nodiscard]] bool is_exclusive(const HolderName& holder) const;
    // Its locks can be claimed until `until`.
    void session_ended(uint64_t session, Time now, Time until);
    [[nodiscard]] size_t count() const { return count_; }
    // Locks at which lock() has looked to find cycles, since the last call of this.
    [[nodiscard]] size_t take_cycle_locks() { return std::exchange(cycle_locks_, 0); }
    // Calls for locks: those that a lock of another owner was in the way of, also of callers that
    // wait and ask again; those that had to wait for former holders; and those that a bound
    // refused.
    struct Counters {
        Counter refused, held_off, bounded;
    };
    [[nodiscard]] const Counters& counters() const { return counters_; }
    [[nodiscard]] size_t count_of(ContainerId container, ObjectId object) const {
        const auto found = objects_.find({container, object});
        return found == objects_.end() ? 0 : found->second.size();
    }

  private:
    using Key = std::pair<ContainerId, ObjectId>;
    struct Held {
        Lock lock;
        HolderName holder;
        uint64_t session = 0;
        [[nodiscard]] bool is_of(const HolderName& who, const Lock& other) const {
            return holder == who && lock.mount == other.mount && lock.owner == other.owner &&
                   lock.space == other.space;
        }
    };
    using Locks = std::vector<Held>;
    struct Session {
        Uuid owner;
        size_t locks = 0;
        std::map<Key, size_t> objects;  // its locks of each
        Time until = Time::max();
    };
    [[nodiscard]] std::optional<Lock> conflict(const Locks& locks, const HolderName& holder,
                                               const Lock& wanted) const;
    [[nodiscard]] Result<> check_room(const Locks& locks, const Holder& holder, size_t more) const;
    // The holder's session has changed.
    void move(const Key& key, const HolderName& holder, uint64_t session, Time now);
    [[nodiscard]] bool is_over(const Held& held, Time now) const {
        return sessions_.at(held.session).until <= now;
    }
    [[nodiscard]] bool has_ended(const Held& held) const {
        return sessions_.at(held.session).until != Time::max();
    }
    // Errors: invalid.
    [[nodiscard]] static Result<> check(const LockRequest& request);
    // The holder's lock of a container was set, claimed or ended. Errors: no_memory.
    [[nodiscard]] Result<> pin_container(ContainerId container, const Holder& holder,
                                         const Lock& lock);
    // Locks of ended sessions that match.
    template <class Match>
    void drop_ended_of(const Key& key, Match match);
    // ---- processes that wait
    struct Waiter {
        HolderName holder;
        uint64_t mount = 0, owner = 0;
        friend auto operator<=>(const Waiter&, const Waiter&) = default;
    };
    using WaitKey = std::pair<Waiter, Key>;
    struct Waiting {
        Lock lock;
        Time until{};
    };
    // Errors: EDEADLK. Beyond its bounds nothing is noted.
    [[nodiscard]] Result<> note_wait(const WaitKey& wait, const Lock& lock, Time now);
    void end_wait(const WaitKey& wait);
    void end_old_waits(Time now);
    [[nodiscard]] bool waits_for_itself(const WaitKey& wait, const Lock& lock);
    // What the owner of a lock has of the object becomes `own`.
    void replace(const Key& key, const Holder& holder, const Lock& owned_as,
                 const std::vector<Lock>& own);
    void count(const Held& held, const Key& key, size_t locks);
    void discount(const Held& held, const Key& key, size_t locks);
    void drop_ended(Time now);
    size_t drop_one(uint64_t session);  // of its objects

    PinTable& pins_;
    Counters counters_;
    size_t count_ = 0;
    size_t cycle_locks_ = 0;
    Counter containers_;  // their locks
    std::map<Key, Locks> objects_;
    std::map<uint64_t, Session> sessions_;
    std::set<std::pair<Time, uint64_t>> ended_;  // of them, by `until`
    std::map<Uuid, size_t> owners_;              // of sessions: their locks
    std::map<WaitKey, Waiting> waits_;
    std::set<std::pair<Time, WaitKey>> waits_until_;
    std::map<Uuid, size_t> waiting_owners_;  // of sessions: their waits
};

}  // namespace ros2s::object
