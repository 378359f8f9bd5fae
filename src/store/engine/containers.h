// Containers: creates, destroys and lists containers. The contents of a destroyed one are removed
// in steps that need little memory each. Part of an open pool, which owns it. Used on core 0.
//
// Invariants
// - Labels are unique: creations and retirements run one after the other.
// - A destroyed container is first retired, so that no client finds it. Then its contents are
//   removed. After a crash in between, resume_purges() removes the rest.
#pragma once
#include <functional>
#include <vector>

#include "checkpointer.h"
#include "ros2s/object/leases.h"

namespace ros2s::engine {

class Containers {
  public:
    Containers(Cores& cores, State& state, Committer& committer, Checkpointer& checkpointer,
               const Journal& journal, object::LeaseTable& leases);

    // ObjectStore::create_container() and so on. A call with an update name (Call::update)
    // takes effect once.
    Task<Result<object::ContainerRecord>> create(const Call& call,
                                                 const object::ContainerProperties& properties);
    // Errors: not_found, read_only, name_too_long (the owner), invalid (a cache without a cap).
    Task<Result<object::ContainerRecord>> set(const Call& call, object::ContainerId container,
                                              const object::ContainerChange& change);
    // Returns when the contents are removed; a repetition returns at once.
    Task<Result<>> destroy(const Call& call, object::ContainerId container);
    Task<Result<std::vector<object::ContainerRecord>>> list(const Call& call);
    Task<Result<object::PoolSpace>> space(const Call& call, object::ContainerId container);
    // Continues destructions that a crash interrupted. Spawned by the pool.
    Task<> resume_purges();
    // Set by the pool, or empty: called when a container has been destroyed.
    std::function<void(object::ContainerId)> retired;
    // True: it must have a cap of bytes.
    std::function<bool(object::ContainerId)> is_cache;
    // Held during a change of the whole pool: a creation, a retirement, a growth.
    Semaphore turn;

  private:
    // True: an earlier request with the call's name has done it.
    Task<Result<bool>> retire(const Call& call, object::ContainerId container);
    Task<Result<>> purge(object::ContainerId container);
    Task<Result<>> commit_steps(object::ContainerId container, std::vector<Change> changes);
    // The reply is stored under `id`, unless it is nil.
    Task<Result<object::Commit>> commit_change(object::ContainerId container, Change change,
                                               const UpdateName& id = {});

    Semaphore purges_;
    Cores& cores_;
    State& state_;
    Committer& committer_;
    Checkpointer& checkpointer_;
    const Journal& journal_;
    object::LeaseTable& leases_;
    Core& home_;
    Reactor& reactor_;
};

}  // namespace ros2s::engine
