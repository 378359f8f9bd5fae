// Containers: made, destroyed and listed. What a destroyed one holds is removed in steps that need
// little memory each. Part of an open pool, which owns it. Used on core 0.
//
// Invariants
// - Labels are unique: creations and destructions go one by one.
// - A container that is destroyed is gone for everybody before anything of it is removed. A crash
// in
//   between leaves a retired one that holds less; resume_purges() goes on.
#pragma once
#include <vector>

#include "checkpointer.h"

namespace ros2s::engine {

class Containers {
  public:
    Containers(Cores& cores, State& state, Committer& committer, Checkpointer& checkpointer,
               const Journal& journal);

    // ObjectStore::create_container() and so on. A call with a name (Call::update) is done once.
    Task<Result<object::ContainerRecord>> create(const Call& call,
                                                 const object::ContainerProperties& properties);
    Task<Result<>> destroy(const Call& call, object::ContainerId container);
    Task<Result<std::vector<object::ContainerRecord>>> list(const Call& call);
    Task<Result<object::PoolSpace>> space(const Call& call);
    // Goes on with destructions that a crash interrupted. Spawned by the pool.
    Task<> resume_purges();
    // Held by what changes the pool as a whole: creations, destructions, growths.
    Semaphore turn;

  private:
    Task<Result<>> purge(object::ContainerId container);
    Task<Result<>> commit_steps(object::ContainerId container, std::vector<Change> changes);
    // `id`: whose stored answer it becomes; nil: nobody's.
    Task<Result<object::Commit>> commit_change(object::ContainerId container, Change change,
                                               const object::OperationId& id = {});

    Cores& cores_;
    State& state_;
    Committer& committer_;
    Checkpointer& checkpointer_;
    const Journal& journal_;
    Core& home_;
    Reactor& reactor_;
};

}  // namespace ros2s::engine
