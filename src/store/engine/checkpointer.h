// Checkpointer: writes the visible state of one moment to the index as one atomic batch, then the
// checkpoint slot, and then lets the journal reuse the space of the records before it.
//
//   all cores cut between the same two groups ─ each serialises in slices ─ index.apply ─
//   index.flush ─ slot ─ flush ─ trim
//
// Invariants
// - The index holds exactly the state after some group X: the batch is atomic and contains X. X is
//   durable.
// - A slot is written only when the index is durable up to it. The journal is trimmed only when the
//   slot is durable.
//
// Used on core 0. Visits other cores for their nodes. Index calls run on helper threads.
#pragma once
#include "committer.h"
#include "ros2s/engine/format/checkpoint.h"

namespace ros2s::engine {

class Checkpointer : private SpaceMap::CutSink {
  public:
    struct Counters {
        Counter checkpoints, nodes, batch_bytes;
    };
    // `number`: the newest checkpoint slot's.
    Checkpointer(const Environment& env, Index& index, device::BlockDevice& device, Cores& cores,
                 Publisher& publisher, State& state, Journal& journal, Committer& committer,
                 const Uuid& pool, uint64_t first_slot_block, uint64_t number);

    // Writes a checkpoint whenever one was requested. Spawned by the pool.
    Task<> run();
    void stop();
    void request();
    // Called after any step that may have changed nodes. Requests a checkpoint if many are dirty.
    void request_if_due() {
        if (!writing_ && cores_.is_dirty_beyond(cores_.dirty_share())) request();
    }
    // True if so many nodes are dirty that a new change must wait: for checkpoints until fewer are
    // dirty, or until the committer is dead.
    [[nodiscard]] bool is_behind() const {
        return cores_.is_dirty_beyond(2 * cores_.dirty_share()) && !committer_.is_dead();
    }
    Task<> catch_up();
    // Signalled after each checkpoint, and when there will be no more.
    Event& finished() { return finished_; }

    // Writes a checkpoint now; run() must not be running. Errors: io and those of the index.
    Task<Result<>> checkpoint();
    Counters counters;
    [[nodiscard]] bool is_requested() const { return wanted_; }
    // Memory of the checkpoint being written.
    [[nodiscard]] uint64_t batch_bytes() const {
        return batches_.front().bytes() + handed_over_bytes_;
    }

  private:
    void region(uint32_t device, uint32_t region, std::string_view bits) override;
    void cut_rest();
    Task<> cut();
    Task<> cut_nodes(Core& core);
    Task<> take_nodes(Core& core);
    Task<> finish_nodes(Core& core);

    const Environment& env_;
    Index& index_;
    device::BlockDevice& device_;
    Cores& cores_;
    Publisher& publisher_;
    State& state_;
    Journal& journal_;
    Committer& committer_;
    Uuid pool_;
    uint64_t first_slot_block_;
    uint64_t number_;
    std::vector<IndexBatch> batches_;  // by core; each core fills its own
    uint64_t handed_over_bytes_ = 0;
    bool wanted_ = false, writing_ = false, stopping_ = false;
    Event wake_, finished_;
};

}  // namespace ros2s::engine
