// Coordinator: transactions over several objects, and the steps of other clients that meet their
// locks. docs/formats/rados.md describes the protocol.
//
//     begin ──► prepare all ──► commit ──► apply all
//       │           └─ one has changed ─► abort: unlock those that are prepared
//       └ record: pending ───────► committed, or gone (aborted)
//
// Alternatively one of the objects decides. Its own change is the commit, and includes the record:
//
//     prepare the others ──► change this one ──► apply to the others
//           └─ one has changed ──┴─► unlock those that are prepared
//
// A client that meets a lock reads the record of the lock's transaction: resolve_lock().
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "ros2s/rados/pool.h"
#include "ros2s/rados/records.h"
#include "ros2s/rados/view.h"
#include "ros2s/runtime/call.h"
#include "ros2s/runtime/reactor.h"

namespace ros2s::rados {

// The location of a transaction's record, and its present content.
struct RecordLocation {
    ObjectName object;
    std::string key;
    bool object_exists = false;
    std::string bytes;   // empty: no record
    std::string made{};  // `c` of the object, for replies
};

// Takes the reply to a read of the record and of `c`.
[[nodiscard]] Result<> take(RecordLocation& location, const Result<ReadReply>& reply);

// One object of a transaction.
struct Participant {
    const View* view = nullptr;
    Pending pending;  // includes the new head
    std::string locked_head;
};
// A change of the object, on the condition that its head is still the view's.
[[nodiscard]] Change conditional_change(ObjectName object, const View& view);
// Adds the pending changes to the change.
void add(Change& change, Pending pending);

class Coordinator {
  public:
    Coordinator(Reactor& reactor, Pool& pool, Duration patience)
        : reactor_(reactor), pool_(pool), patience_(patience) {}

    // One attempt to do a transaction.
    struct Attempt {
        const Call& call;
        std::string space;
        RecordLocation location;
        Coordination record;
        std::vector<Participant>& participants;
        const Participant* decider = nullptr;  // null: the record decides
        bool even_if_full = false;             // see Change
    };
    // Runs the whole protocol. The record is pending. Returns whether all objects are unlocked. If
    // not, the next client that meets a locked object unlocks it, and needs the record for that.
    // Errors: busy (an object has changed; nothing was done, and the caller starts again), those of
    // Pool (the transaction may have been done).
    Task<Result<bool>> execute(const Attempt& attempt);
    // Runs the protocol in which a participant decides, which exists. Its changes include the
    // decision, at the location. On return the others are locked; apply_all() unlocks them. Errors:
    // as execute(). Tests kill the process on entry.
    [[gnu::noinline]] Task<Result<>> decide(const Attempt& attempt);
    // The changes that a committed transaction has not yet applied to an object that it locks.
    struct Unapplied {
        std::string name, locked_head;
        Pending pending;
    };
    [[nodiscard]] static Unapplied unapplied(const Participant& participant);
    // Returns whether all are unlocked.
    [[nodiscard]] Task<bool> apply_all(std::string space, std::vector<Unapplied> objects);

    // For writers: unlocks the object. Aborts a transaction that stays pending for longer than the
    // patience. Errors: those of Pool and of the call.
    Task<Result<>> resolve_lock(const Call& call, ObjectName object, Head head,
                                std::string head_bytes);
    // For readers. True: the transaction is committed and now applied to the object; the caller
    // reads it again. False: it is not committed; the object has its old state.
    Task<Result<bool>> apply_if_committed(ObjectName object, Head head, std::string head_bytes);
    // Applies a committed transaction to its objects that it still locks.
    Task<Result<>> finish(std::string space, const Coordination& record);
    // Aborts the transaction of the record, if it is still pending.
    Task<Result<>> abort(const ObjectName& object, const std::string& key, const std::string& bytes,
                         const Coordination& record);
    // The bytes of its head; empty: there is no such object.
    Task<Result<std::string>> read_head(ObjectName object);

  private:
    enum class State : uint8_t { pending, committed, over };
    // The state of the transaction that holds the lock. end_pending() aborts a pending one.
    struct Decision {
        State state = State::over;
        RecordLocation location;
        Coordination record;
    };
    Task<Result<Decision>> decision_of(std::string space, Lock lock);
    // What both have in common: locks all participants except the decider, if any, and makes the
    // change that commits. If that fails, unlocks them. Errors: as execute().
    Task<Result<>> lock_and_commit(const Attempt& attempt, Change change);
    Task<> unlock_prepared(const Attempt& attempt, const std::vector<Result<>>& prepared);
    // Tests kill the process on entry to these.
    [[gnu::noinline]] Task<> prepare(const Attempt& attempt, Participant& participant,
                                     Result<>& result);
    // Makes the change that commits the lock's transaction. Errors: condition_failed (the
    // transaction is not committed, and never will be); for others see may_be_done().
    [[gnu::noinline]] Task<Result<>> commit(Change change, Lock lock);
    // `known`: the value of the object's `t`. Without it, this reads `t`.
    [[gnu::noinline]] Task<> apply(ObjectName object, std::string head_bytes,
                                   std::optional<Pending> known, Result<>& result);
    [[gnu::noinline]] Task<Result<>> end_pending(Decision decision);
    [[gnu::noinline]] Task<> unlock(ObjectName object, Head head, std::string head_bytes,
                                    Result<>& result);

    Reactor& reactor_;
    Pool& pool_;
    const Duration patience_;
};

}  // namespace ros2s::rados
