// Publisher: makes planned changes, and finds out whether those were made that returned an error. A
// change of one object is one request. Those of several objects are a transaction of the
// Coordinator: one of the objects decides it, or the slot of the client that named it. Part of an
// open store. Used on one core.
//
// Invariants
// - Every change of an object is conditional on its head, so it fails if the object has changed
//   since it was read.
// - A change whose outcome is not known is not repeated, and its data is not removed.
// - What a refused change says is not believed before the object, the decision or the data is seen.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "replies.h"
#include "tidier.h"
#include "update.h"

namespace ros2s::rados {

class Publisher {
  public:
    Publisher(const Env& env, Coordinator& coordinator, Heads& heads, Replies& replies,
              Tidier& tidier);
    // Joins what transactions do after they returned.
    Task<> close() { return applying_.join(); }

    // Makes the members' changes, which the views have. `location`: the slot of a named transaction
    // that does not note its reply. `is_guess`: the views may be wrong. Errors: busy (an object has
    // changed, nothing was done, and the caller starts again); too_large; those of Pool.
    Task<Result<>> publish(const Call& call, std::string space, RecordLocation location,
                           Views& views, std::span<Update* const> members, bool is_guess);

  private:
    // Each makes the changes in one way.
    Task<Result<>> change_one(std::string space, const Participant& only, bool even_if_full);
    Task<Result<>> change_by_decider(Coordinator::Attempt& attempt, KeyMutexes::Hold& hold);
    Task<Result<>> change_by_slot(const Coordinator::Attempt& attempt);
    // The object has its changes, or is locked for them.
    void note_changed(const std::string& space, const Participant& changed);
    [[nodiscard]] static Participant& decider_of(std::vector<Participant>& participants);
    // Tests kill the process when it enters this.
    [[gnu::noinline]] Task<> apply_rest(std::string space,
                                        std::vector<Coordinator::Unapplied> objects,
                                        std::string decider, Pending decided, std::string key,
                                        KeyMutexes::Hold hold);
    // Finds out whether a change that returned an error was applied. Returns success if it was.
    // Errors: those of the change; deadline (it cannot be determined); those of Pool.
    Task<Result<>> outcome_of(Error error, std::string space, std::span<Update* const> members);
    // Whether a change with a failed condition published the members' data in the data pool. False
    // if they have no data there.
    Task<Result<bool>> has_published(std::string space, std::span<Update* const> members);
    [[nodiscard]] Pending changes_of(const View& view, std::span<Update* const> members);

    const Env& env_;
    Coordinator& coordinator_;
    Heads& heads_;
    Replies& replies_;
    Tidier& tidier_;
    Nursery applying_;  // apply_rest()
};

}  // namespace ros2s::rados
