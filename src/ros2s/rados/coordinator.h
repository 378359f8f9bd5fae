// Coordinator: transactions over several objects, and what other clients do about them
// (docs/formats/rados.md has the protocol).
//
//     begin ──► prepare all ──► commit ──► apply all
//       │           └─ one has changed ─► abort: unlock those that are prepared
//       └ record: pending ───────► committed, or gone (aborted)
//
// Or one of the objects decides. Its own change is the commit, and has the record:
//
//     prepare the others ──► change this one ──► apply to the others
//           └─ one has changed ──┴─► unlock those that are prepared
//
// Whoever meets a lock reads the record of its transaction: resolve_lock().
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

// Where a transaction's record is, and what is there now.
struct RecordLocation {
    ObjectName object;
    std::string key;
    bool object_exists = false;
    std::string bytes;   // empty: no record
    std::string made{};  // of replies: their object's `c`
};

// What a read of the record, and of `c`, has found there.
[[nodiscard]] Result<> take(RecordLocation& location, const Result<ReadReply>& reply);

// One object of a transaction.
struct Participant {
    const View* view = nullptr;
    Pending pending;  // with the head afterwards
    std::string locked_head;
};
// A change of it, on the condition that it still is as the view says.
[[nodiscard]] Change conditional_change(ObjectName object, const View& view);
// The change does what is pending, too.
void add(Change& change, Pending pending);

class Coordinator {
  public:
    Coordinator(Reactor& reactor, Pool& pool, Duration patience)
        : reactor_(reactor), pool_(pool), patience_(patience) {}

    // The whole protocol. `record` is pending. `even_if_full`: see Change. Returns whether all
    // objects are unlocked; if not, whoever meets them does it, and needs the record until then.
    // Errors: busy (something has changed; nothing was done, and the caller starts again), those of
    // Pool: then it may have been done.
    Task<Result<bool>> execute(const Call& call, std::string space, RecordLocation location,
                               Coordination record, std::vector<Participant> participants,
                               bool even_if_full);

    // The protocol in which the participant `decider` decides: it exists, and has entries
    // afterwards. Its changes include the decision, at `key`. When this returns, the others are
    // locked and get unlocked by apply_all(). Errors: as of execute(). Tests kill the process when
    // it enters this.
    [[gnu::noinline]] Task<Result<>> decide(const Call& call, std::string space, std::string key,
                                            Uuid transaction,
                                            std::vector<Participant>& participants, size_t decider,
                                            bool even_if_full);
    // What a committed transaction still does to an object that it locks.
    struct Unapplied {
        std::string name, locked_head;
        Pending pending;
    };
    [[nodiscard]] static Unapplied unapplied(const Participant& participant);
    // Returns whether all are unlocked.
    [[nodiscard]] Task<bool> apply_all(std::string space, std::vector<Unapplied> objects);

    // Writers: the object gets unlocked. A transaction that stays pending for longer than the
    // patience is aborted. Errors: those of Pool and of the call.
    Task<Result<>> resolve_lock(const Call& call, std::string space, std::string name, Head head,
                                std::string head_bytes);
    // Readers: true: the transaction is committed, and now applied to the object: read it again.
    // False: it is not, so that the object is as it was.
    Task<Result<bool>> apply_if_committed(std::string space, std::string name, Head head,
                                          std::string head_bytes);
    // Applies a committed transaction to those of its objects that are still locked by it.
    Task<Result<>> finish(std::string space, const Coordination& record);
    // Aborts the pending transaction of the record, if it is still pending.
    Task<Result<>> abort(const ObjectName& object, const std::string& key, const std::string& bytes,
                         const Coordination& record);
    [[nodiscard]] Task<Result<bool>> has_head(ObjectName object, std::string head_bytes);
    // Reads the record at the location.
    Task<Result<>> look(RecordLocation& location);

  private:
    enum class State : uint8_t { pending, committed, over };
    // Of the transaction that holds the lock. Pending: `record` is what it depends on, and
    // end_pending() ends it.
    struct Decision {
        State state = State::over;
        RecordLocation location;
        Coordination record;
    };
    Task<Result<Decision>> decision_of(std::string space, Lock lock);
    // Prepares all but the decider, if any. Returns the first error.
    Task<Result<>> prepare_all(std::string space, RecordLocation location, Uuid transaction,
                               bool even_if_full, std::vector<Participant>& participants,
                               const Participant* decider, std::vector<Result<>>& prepared);
    Task<> unlock_prepared(std::string space, std::vector<Participant>& participants,
                           std::vector<Result<>>& prepared, const Participant* decider);
    Task<Result<>> read_pending(ObjectName object, std::string head_bytes, Pending& pending);
    // Tests kill the process when it enters these.
    [[gnu::noinline]] Task<> prepare(std::string space, RecordLocation location, Uuid transaction,
                                     bool even_if_full, Participant& participant, Result<>& result);
    // The change that commits the transaction of the lock. Errors: condition_failed (it is not
    // committed, and never will be); others, see may_be_done().
    [[gnu::noinline]] Task<Result<>> commit(Change change, Lock lock);
    // `known`: what the object's `t` has; none: it is read.
    [[gnu::noinline]] Task<> apply(std::string space, std::string name, std::string head_bytes,
                                   std::optional<Pending> known, Result<>& result);
    [[gnu::noinline]] Task<Result<>> end_pending(Decision decision);
    [[gnu::noinline]] Task<> unlock(std::string space, std::string name, Head head,
                                    std::string head_bytes, Result<>& result);

    Reactor& reactor_;
    Pool& pool_;
    const Duration patience_;
};

}  // namespace ros2s::rados
