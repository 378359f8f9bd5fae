// The types of an update of a RadosStore, for updating.cc, payload.cc and rewriting.cc.
#pragma once
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "rados_store.h"

namespace ros2s::rados {

inline constexpr size_t writes_at_once = 16;

// The bytes of a transaction's arrays that are being written to the data pool.
struct RadosStore::Payload {
    explicit Payload(Reactor& reactor) : started(reactor.now()), writes(reactor, writes_at_once) {}
    const Time started;
    std::vector<WrittenRun> runs;
    std::deque<std::string> copies;  // of memory that others can change
    std::deque<Result<>> results;
    std::map<object::ObjectId, std::vector<DataId>> all;  // data that was written
    bool may_be_seen = false;                             // it may have been published
    Nursery writes;

    [[nodiscard]] Result<> check() const {
        for (const Result<>& result : results) ROS2S_TRY(result);
        return {};
    }
};

// The rewrite of a segment that has many parts. It puts the segment's bytes into new runs. Holes,
// and bytes written meanwhile, stay.
struct RadosStore::Rewrite {
    object::ObjectId object;
    std::string key;
    Segment before, anew;
    std::map<object::ObjectId, std::vector<DataId>> garbage;  // after apply()

    void add_to(Views& views) const {
        View& view = views.try_emplace(object, object).first->second;
        view.want(key);
        view.want(inline_key);
    }
};

// An update. Updates of one object that become ready while a change of it is in flight share the
// next change. They are planned one after the other, each with its own epoch and conditions.
struct RadosStore::Member {
    Member(const Call& its_call, object::ContainerId its_container,
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
struct RadosStore::Group {
    explicit Group(Reactor& reactor) : done(reactor) {}
    std::vector<Member*> members;
    size_t operations = 0;
    Event done;
};

}  // namespace ros2s::rados
