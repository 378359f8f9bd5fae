// Recovery: computes the state after the last committed group from the devices and the index:
//
// - It starts at the newest checkpoint and follows the chain of announced ids.
// - A record is proven if a later one (or the index) shows that it was durable. The journal ends
//   before the first unproven record that cannot be read or whose data does not match: the torn
//   tail. A proven record in this state is damage. The journal is then not cut, and the pool is
//   opened read-only.
// - Reads may come from a cache. The cache may have unflushed data of a dead process, or data of a
//   failed flush, which no later flush writes to the medium. Unproven records are therefore written
//   again and flushed before another record can prove them.
// - The state is usable only when a restart record is durable.
//
// Used on core 0; a change is applied on the core that has its key.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "committer.h"
#include "journal.h"
#include "ros2s/engine/format/checkpoint.h"
#include "ros2s/engine/format/superblock.h"

namespace ros2s::engine {

struct Recovered {
    Committer::JournalEnd journal_end;
    uint64_t checkpoint_number = 0;
    uint64_t replayed_groups = 0;
    uint64_t cache_bytes_max = 0;  // peak of cached entries during the replay; set by relieve()
    // Empty: the pool may be written to. Otherwise a sentence for people. If the journal is
    // damaged, the state is the one before the damage.
    std::string read_only_reason;
    bool is_damaged = false;  // the journal, by read_only_reason
};

class Recovery {
  public:
    Recovery(const Environment& env, std::vector<device::BlockDevice*> devices,
             const Superblock& pool, Cores& cores, Publisher& publisher, State& state,
             Journal& journal, Index& index);

    // Fills `state`. Leaves `journal` at the chain's end, with the checkpoint's position as its
    // tail. Errors: io, corrupt (no valid checkpoint; an index that is older than the checkpoint),
    // bad_version, with sentences.
    Task<Result<Recovered>> run(Report& report);
    // Called after each applied group, to free memory. `durable`: the group is known to be durable.
    // Set by the pool.
    std::function<Task<Result<>>(const Committer::JournalEnd& journal_end, Recovered& out,
                                 bool durable)>
        relieve;
    // Writes unproven data again, unchanged: the checkpoint, and the last records with their data.
    Task<Result<>> write_again(Report& report);
    // Writes the restart record and flushes; then all unused blocks are available.
    Task<Result<>> restart(Committer::JournalEnd& journal_end, Report& report);

  private:
    // A record that was found. It is read again when needed, so that memory stays bounded.
    struct Candidate {
        RecordHeader header;
        uint64_t ring_block = 0;
    };
    Task<Result<CheckpointSlot>> newest_checkpoint(Report& report);
    Task<Result<>> load_index(Report& report);
    Task<Result<>> flush_all(Report& report);
    // The records from the checkpoint on, as far as they can be read.
    Task<Result<>> follow_chain(const CheckpointSlot& slot, Report& report);
    // The record at a position of the ring, if it is the expected one; otherwise nothing.
    Task<Result<std::optional<Record>>> read_record(uint64_t ring_block, uint64_t id,
                                                    uint64_t previous_id, uint64_t sequence);
    // Reads the record again. Errors: those of the device; corrupt if it is not there any more.
    Task<Result<Record>> read_again(const Candidate& candidate);
    // Looks for proof of the record that could not be read.
    Task<Result<uint64_t>> evidence_behind();
    // Blocks of the first device.
    Task<Result<>> copy_onto_itself(uint64_t block, uint64_t blocks);
    enum class Matching { compare, write_again };
    Task<Result<bool>> data_match(const Record& record, Matching how);
    [[nodiscard]] Result<> load_entry(const IndexEntry& entry);
    Task<Result<>> count_container(object::ContainerId id, State::Container& container);
    [[nodiscard]] uint64_t memory_bytes_max() const;
    // Sets the nodes of its changes.
    Task<Result<>> apply(Record& record);
    // Finds the end of the chain, and applies the records before it.
    Task<Result<>> accept(CheckpointSlot slot, uint64_t proven, Recovered& out, Report& report);
    [[nodiscard]] bool is_next(const RecordHeader& header, uint64_t id, uint64_t previous_id,
                               uint64_t sequence) const;

    const Environment& env_;
    std::vector<device::BlockDevice*> devices_;
    const Superblock& pool_;
    Cores& cores_;
    Publisher& publisher_;
    State& state_;
    Journal& journal_;
    Index& index_;
    std::vector<Candidate> records_;
    uint64_t checkpoint_block_ = 0;
    std::vector<Candidate> unproven_;
    // The expected record after the last one, and the incarnation of the last one.
    struct Next {
        uint64_t ring_block = 0, id = 0, previous_id = 0, sequence = 0, incarnation = 0;
    };
    Next next_;
};

}  // namespace ros2s::engine
