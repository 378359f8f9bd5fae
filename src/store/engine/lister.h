// Lister: lists and queries, which look at the keys of all cores. Part of an open pool, which owns
// it. Used on core 0.
//
// Invariants
// - A query's reply is of one moment: it includes all of a change or nothing.
// - A list ends at the call's deadline, and has at most 1 MiB of values.
// - A list includes what was present during the whole call. Entries that were added or removed
//   meanwhile may be included.
#pragma once
#include "core.h"
#include "state.h"

namespace ros2s::engine {

class Lister {
  public:
    Lister(Cores& cores, const State& state) : cores_(cores), state_(state) {}

    // ObjectStore::list() and query(). Errors: theirs; corrupt (an index that is not ours).
    Task<Result<object::ListReply>> list(const Call& call, object::ContainerId container,
                                         const object::ListRequest& request);
    Task<Result<object::QueryReply>> query(const Call& call, object::ContainerId container,
                                           object::ObjectId object, const object::Akey& akey);

  private:
    Task<Result<object::ListReply>> list_objects(const Call& call, object::ContainerId container,
                                                 const object::ListRequest& request);
    Task<Result<object::ListReply>> list_entries(const Call& call, object::ContainerId container,
                                                 const object::ListRequest& request);
    Task<Result<object::QueryReply>> query_object(const Call& call, object::ContainerId container,
                                                  object::ObjectId object,
                                                  const object::Akey& akey);
    Task<Result<std::optional<object::QueryReply>>> look_at(const Call& call,
                                                            object::ContainerId container,
                                                            object::ObjectId object,
                                                            const object::Akey& akey);
    Task<Result<>> find_highest(const Call& call, object::ContainerId container,
                                object::ObjectId object, const object::Akey& akey, Node& summary);

    Cores& cores_;
    const State& state_;
};

}  // namespace ros2s::engine
