// RecoveredPool: a pool's media and the state after the last committed group, in memory, as Opening
// recovers it. EngineStore::OpenPool adds the parts that serve requests. Owns the devices and the
// index. Used on core 0; each core owns its handles of the devices.
#pragma once
#include <memory>

#include "journal.h"
#include "publisher.h"
#include "superblocks.h"

namespace ros2s::engine {

class RecoveredPool {
  public:
    // In the superblock's order. `environment` is copied.
    RecoveredPool(const Env& environment, Devices pool_devices, Superblock pool_superblock,
                  std::unique_ptr<Index> pool_index, const EngineOptions& pool_options);
    ~RecoveredPool();

    const Env env;
    const EngineOptions options;
    Superblock superblock;
    Devices devices;
    std::unique_ptr<Index> index;
    State state;
    Journal journal;
    Cores cores;
    Publisher publisher;

    // Adds a device of the superblock to the space map and the home devices.
    void add_space(uint32_t device);
    // Opens each core's own handles of the devices from number `first` on. `pool` lists the
    // devices: the superblock, or its next version. Errors: those of handle_on().
    Task<Result<>> open_handles(const Superblock& pool, uint32_t first, Report& report);
    // Must be called, after all work on the pool has ended.
    Task<> close();

  private:
    bool is_closed_ = false;
};

// Closes the devices that are open.
Task<> close_all(Devices& devices);

}  // namespace ros2s::engine
