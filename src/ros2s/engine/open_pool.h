// EngineStore::OpenPool: what takes requests, on a pool that Opening has brought up, in dependency
// order. It wires its parts and does nothing else: each is a class that says what it uses.
#pragma once
#include <optional>

#include "containers.h"
#include "engine_store.h"
#include "lister.h"
#include "opening.h"
#include "reader.h"
#include "writer.h"

namespace ros2s::engine {

class EngineStore::OpenPool {
  public:
    OpenPool(std::unique_ptr<RecoveredPool> pool, Recovered what);

    const std::unique_ptr<RecoveredPool> base;
    const Recovered recovered;
    Committer committer;
    Checkpointer checkpointer;
    object::PinTable pins;
    Reader reader;
    Lister lister;
    Writer writer;
    Containers containers;

    // What goes on besides requests: not in a pool that is read-only.
    Task<> start();
    // False: it was not started.
    Task<bool> stop();

  private:
    Task<> give_back_at_rest();
    std::optional<Nursery> background_;
    StopSource closing_;
};

}  // namespace ros2s::engine
