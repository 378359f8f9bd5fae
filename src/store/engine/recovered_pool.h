// RecoveredPool: a pool's media and the state after the last committed group, in memory.
// EngineStore::OpenPool adds the parts that serve requests. Owns the devices and the index. Used on
// core 0; each core owns its handles of the devices.
//
//   handles ─ replay ─ write unproven records again ─ restart record ─ superblocks
//               └─ read-only: nothing is written
//
// Invariants
// - A replay stays within the memory cap: caches are trimmed, and changes are written to the index.
// - No block is reused before the restart record is durable.
#pragma once
#include <memory>

#include "journal.h"
#include "publisher.h"
#include "recovery.h"
#include "superblocks.h"

namespace ros2s::engine {

class RecoveredPool {
  public:
    // In the superblock's order. `environment` is copied.
    RecoveredPool(const Environment& environment, Devices pool_devices, Superblock pool_superblock,
                  std::unique_ptr<Index> pool_index, const EngineOptions& pool_options);
    ~RecoveredPool();

    const Environment env;
    const EngineOptions options;
    Superblock superblock;
    Devices devices;
    std::unique_ptr<Index> index;
    State state;
    Journal journal;
    Cores cores;
    Publisher publisher;

    // Called once, before anything else. Errors: those of Recovery; no_memory (a read-only replay
    // needs more memory than the cap allows); io; each with a sentence. The caller closes the pool.
    Task<Result<Recovered>> recover(Report& report);
    // Adds a device of the superblock to the space map and the home devices.
    void add_space(uint32_t device);
    // Opens each core's own handles of the devices from number `first` on. `pool` lists the
    // devices: the superblock, or its next version. Errors: those of handle_on().
    Task<Result<>> open_handles(const Superblock& pool, uint32_t first, Report& report);
    // Must be called, after all work on the pool has ended.
    Task<> close();

  private:
    // Reasons other than the journal.
    [[nodiscard]] std::string read_only_reason() const;
    // Writes a checkpoint of the state recovered so far, all of which is durable.
    Task<Result<>> checkpoint(const Committer::JournalEnd& journal_end, uint64_t& number,
                              Report& report);
    // `durable`: all groups replayed so far are durable.
    Task<Result<>> relieve(const Committer::JournalEnd& journal_end, Recovered& recovered,
                           bool durable, Report& report);

    bool is_closed_ = false;
};

// Closes the devices that are open.
Task<> close_all(Devices& devices);

}  // namespace ros2s::engine
