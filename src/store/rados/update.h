// One update of a store. Updates of one object that become ready while a change of it is in flight
// share the next change. They are planned one after the other, each with its own epoch and
// conditions.
#pragma once
#include <optional>

#include "payload.h"
#include "rewriter.h"

namespace ros2s::rados {

struct Update {
    Update(const Call& its_call, object::ContainerId its_container,
           const object::Transaction& its_transaction, Reactor& reactor)
        : call(its_call),
          container(its_container),
          transaction(its_transaction),
          payload(reactor),
          plan(transaction, payload.runs) {}
    const Call& call;
    const object::ContainerId container;
    const object::Transaction& transaction;
    Payload payload;
    Plan plan;
    Result<> verdict;  // of the plan
    object::Commit commit;
    std::optional<Result<object::Commit>> result;
    // The transaction is named and can share changes, so its reply is noted with its object.
    bool notes_reply = false;
    Coordination reply;
    std::optional<object::Commit> replay;  // it was done before
    // A change with this update was sent. If it was made although it was refused, the reply is
    // found later.
    bool was_tried = false;
    Rewrite* rewrite = nullptr;        // instead of the plan
    KeyMutexes::Hold* hold = nullptr;  // the mutexes of its objects, if there are several
};

}  // namespace ros2s::rados
