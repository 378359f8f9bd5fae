// Recovery: from what lies on the devices and in the index to the state after the last committed
// group. It trusts nothing by itself:
//
// - It starts at the newest checkpoint and follows the chain of announced ids.
// - A record is proven when a later one (or the index) says that it was durable. The first record
//   that cannot be read or whose data do not match, and that nothing proves, is the torn tail: the
//   journal ends before it. One that is proven is damage, and nothing may be cut off: the pool is
//   then opened read-only.
// - What it reads may come from a cache: what a dead process wrote and nobody flushed, or what a
//   failed flush gave up, which no later one brings to the medium. So what nothing proves is
//   written again and flushed before anything vouches for it.
// - The state is usable only when a restart record is durable.
//
// Used on core 0; what is replayed is applied on whatever core has it.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "commit_rules.h"
#include "committer.h"
#include "journal.h"
#include "ros2s/engine/format/checkpoint.h"
#include "ros2s/engine/format/superblock.h"

namespace ros2s::engine {

struct Recovered {
    Committer::Chain chain;
    uint64_t checkpoint_number = 0;
    uint64_t replayed_groups = 0;
    uint64_t cache_bytes_max = 0;  // of cached entries, while it was replayed; for relieve() to set
    // Empty: the pool may be written to. Otherwise a sentence for people; where the journal is
    // damaged, the state is the one before the damage.
    std::string read_only_reason;
};

class Recovery {
  public:
    Recovery(const Env& env, std::vector<device::BlockDevice*> devices, const Superblock& pool,
             Cores& cores, Publisher& publisher, State& state, Journal& journal, Index& index,
             const CommitRules& rules);

    // Fills `state`; leaves `journal` at the chain's end, with the checkpoint's place as its tail.
    // Errors: io, corrupt (no valid checkpoint; an index that is older than the checkpoint),
    // bad_version, with sentences.
    Task<Result<Recovered>> run(Report& report);
    // Called after each group that has been applied: makes room in memory. `durable`: it is known
    // to be. Set by the pool.
    std::function<Task<Result<>>(const Committer::Chain& chain, Recovered& out, bool durable)>
        relieve;
    // Writes again, as it is, what it found and nothing proves: the checkpoint, and the last
    // records with their data.
    Task<Result<>> write_again(Report& report);
    // Writes the restart record and flushes; then all that is not used is available.
    Task<Result<>> restart(Committer::Chain& chain, Report& report);

  private:
    // A record that was found; it is read again when it is needed, however many there are.
    struct Candidate {
        RecordHeader header;
        uint64_t ring_block = 0;
    };
    Task<Result<CheckpointSlot>> newest_checkpoint(Report& report);
    Task<Result<>> load_index(Report& report);
    Task<Result<>> flush_all(Report& report);
    // The records from the checkpoint on, as far as they can be read.
    Task<Result<>> follow_chain(const CheckpointSlot& slot, Report& report);
    // The record at a place of the ring if it is the one looked for; nothing where it is not.
    Task<Result<std::optional<Record>>> read_record(uint64_t ring_block, uint64_t id,
                                                    uint64_t previous_id, uint64_t sequence);
    // Once more. Errors: those of the device; corrupt where it is not there any more.
    Task<Result<Record>> read_again(const Candidate& candidate);
    // Whether anything proves a record that could not be read.
    Task<Result<uint64_t>> evidence_behind(uint64_t ring_block, uint64_t id);
    Task<Result<uint64_t>> evidence_in(uint64_t from, uint64_t end, uint64_t id);
    // Blocks of the first device.
    Task<Result<>> copy_onto_itself(uint64_t block, uint64_t blocks);
    enum class Matching { compare, write_again };
    Task<Result<bool>> data_match(const Record& record, Matching how);
    [[nodiscard]] Result<> load_entry(const IndexEntry& entry);
    Task<Result<>> apply(const Record& record);
    // Decides where the chain ends, and applies what is before.
    Task<Result<>> accept(CheckpointSlot slot, uint64_t proven, Recovered& out, Report& report);
    [[nodiscard]] bool is_next(const RecordHeader& header, uint64_t id, uint64_t previous_id,
                               uint64_t sequence) const;

    const Env& env_;
    std::vector<device::BlockDevice*> devices_;
    const Superblock& pool_;
    Cores& cores_;
    Publisher& publisher_;
    State& state_;
    Journal& journal_;
    Index& index_;
    CommitRules rules_;
    std::vector<Candidate> records_;
    uint64_t checkpoint_block_ = 0;
    std::vector<Candidate> unproven_;
    // What would come behind the last of them.
    struct Next {
        uint64_t ring_block = 0, id = 0, previous_id = 0, sequence = 0;
    };
    Next next_;
};

}  // namespace ros2s::engine
