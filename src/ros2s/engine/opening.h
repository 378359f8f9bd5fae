// Opening: brings a pool up from its media, so that it can take requests. EngineStore::open() owns
// it, on core 0, for as long as that takes.
//
//   handles ─ replay ─ write again what nothing proves ─ restart record ─ superblocks
//               └─ read-only: nothing is written
//
// Invariants
// - Replaying obeys the memory's cap: caches are trimmed, and what has changed goes to the index.
// - No block is used again before the restart record is durable.
#pragma once
#include "recovered_pool.h"
#include "recovery.h"

namespace ros2s::engine {

class Opening {
  public:
    explicit Opening(RecoveredPool& pool) : pool_(pool) {}
    // Once. Errors: those of Recovery; no_memory (what is replayed for reading alone is more than
    // the cap allows); io; each with a sentence. The caller closes the pool.
    Task<Result<Recovered>> run(Report& report);

  private:
    // Of reasons that do not lie in the journal.
    [[nodiscard]] std::string read_only_reason() const;
    // Writes a checkpoint of what has been recovered so far, all of which is durable.
    Task<Result<>> checkpoint(const Committer::Chain& chain, uint64_t& number, Report& report);
    // `durable`: all that was replayed so far is.
    Task<Result<>> relieve(const Committer::Chain& chain, Recovered& recovered, bool durable,
                           Report& report);

    RecoveredPool& pool_;
};

}  // namespace ros2s::engine
