// Opening: recovers a pool from its media, so that it can serve requests. EngineStore::open() owns
// it, on core 0, until the pool is open.
//
//   handles ─ replay ─ write unproven records again ─ restart record ─ superblocks
//               └─ read-only: nothing is written
//
// Invariants
// - A replay stays within the memory cap: caches are trimmed, and changes are written to the index.
// - No block is reused before the restart record is durable.
#pragma once
#include "recovered_pool.h"
#include "recovery.h"

namespace ros2s::engine {

class Opening {
  public:
    explicit Opening(RecoveredPool& pool) : pool_(pool) {}
    // Called once. Errors: those of Recovery; no_memory (a read-only replay needs more memory than
    // the cap allows); io; each with a sentence. The caller closes the pool.
    Task<Result<Recovered>> run(Report& report);

  private:
    // Reasons other than the journal.
    [[nodiscard]] std::string read_only_reason() const;
    // Writes a checkpoint of the state recovered so far, all of which is durable.
    Task<Result<>> checkpoint(const Committer::JournalEnd& journal_end, uint64_t& number,
                              Report& report);
    // `durable`: all groups replayed so far are durable.
    Task<Result<>> relieve(const Committer::JournalEnd& journal_end, Recovered& recovered,
                           bool durable, Report& report);

    RecoveredPool& pool_;
};

}  // namespace ros2s::engine
