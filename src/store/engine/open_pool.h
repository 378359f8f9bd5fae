// EngineStore::OpenPool: the parts that serve requests on a recovered pool, in dependency order. It
// only connects its parts. Each is a class that names what it uses.
#pragma once
#include <optional>

#include "caches.h"
#include "cleaner.h"
#include "containers.h"
#include "engine_store.h"
#include "lister.h"
#include "pin_holders.h"
#include "reader.h"
#include "recovered_pool.h"
#include "ros2s/object/leases.h"
#include "ros2s/object/locks.h"
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
    object::LockTable locks{pins};
    object::LeaseTable leases;
    AwaitedClients awaited;
    PinHolders holders;
    Reader reader;
    Lister lister;
    Caches caches;
    Writer writer;
    Containers containers;
    Cleaner cleaner;

    // Starts the background work.
    Task<> start();
    // False: the pool was read-only when it was opened.
    Task<bool> stop();

  private:
    Task<> give_back_at_rest();
    std::optional<Nursery> background_;
    StopSource closing_;
};

}  // namespace ros2s::engine
