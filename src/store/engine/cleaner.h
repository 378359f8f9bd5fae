// Cleaner: keeps clear sections (space.h) in pools that overwrites have aged. It moves the blocks
// of sections with few used blocks to other sections, in its own journaled transactions.
//
//   too few clear sections ─ victims are chosen ─ the entries are scanned for their blocks
//     ┌──────────────────────────────────────────────────────────────┘ section by section
//     ▼
//   locks, nodes ─ blocks read and verified ─ copied into the open group ─ committed ─ pause
//                                                    old places ──► quarantine ──► clear
//
// A move changes only the addresses of blocks: not their bytes, their CRCs, nor the epoch and time
// of their entry. Its record names the old addresses (Change::Kind::move). If an update overwrites
// or removes a block meanwhile, applying the move leaves that block unchanged.
//
// It writes at most EngineOptions::cleaner_percent blocks for 100 blocks that updates wrote since
// the pool was opened. It waits until there are few updates, unless clear sections become rare. It
// works at most half of the time, and a tenth while there are many updates. It does nothing in a
// pool without writes or with enough clear sections.
//
// Invariants
// - Corrupt bytes are not moved: their block stays, and so does its section.
// - It takes no space that an update needs: if an update is short of space, the pass ends after the
//   current move.
// - Its list of blocks has a limit (list_share of the memory).
//
// Part of an open pool, which owns it. Used on core 0. Visits other cores for their nodes.
#pragma once
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "checkpointer.h"
#include "ros2s/base/metrics.h"
#include "ros2s/runtime/sync.h"

namespace ros2s::engine {

class Cleaner {
  public:
    struct Counters {
        // Passes over the entries; blocks moved; blocks that could not be read, or were corrupt.
        Counter passes, moved_blocks, spared_blocks;
    };
    // All outlive it.
    Cleaner(Cores& cores, State& state, Publisher& publisher, Committer& committer,
            Checkpointer& checkpointer, const Journal& journal, const EngineOptions& options);

    // Works until stop(), or until the committer is dead. Spawned by the pool, unless
    // `cleaner_percent` is 0.
    Task<> run();
    // Waits until nothing is being moved. Committer and checkpointer must still be running.
    Task<> stop();
    Counters counters;
    // Of its list and its buffer.
    [[nodiscard]] uint64_t memory_bytes() const { return list_bytes_ + memory_.size(); }

  private:
    // A used block of a victim, as the scan found it.
    struct Listed {
        BlockAddress address{};
        uint32_t key = 0;    // of its segment, in keys_
        uint32_t block = 0;  // in the segment
    };
    // The same block, if it is still in use once its keys are locked.
    struct Candidate {
        BlockRef block{};
        const Listed* listed = nullptr;
        Node* node = nullptr;  // of its segment
    };
    struct Visit;

    [[nodiscard]] bool is_over() const { return stopping_ || committer_.is_dead(); }
    void note_updates();
    // Returns true if less than one part in `clear_share` of the unused blocks is in clear
    // sections, and the cleaner may change that.
    [[nodiscard]] bool is_due(uint64_t clear_share) const;
    [[nodiscard]] bool is_busy();
    Task<> pass();
    // A pass leaves enough blocks for the device's updates until moved blocks are available.
    [[nodiscard]] bool has_room(uint32_t device) const;
    [[nodiscard]] bool choose();
    Task<bool> collect();
    Task<bool> take_page(std::string& from, const std::string& to, bool& more);
    [[nodiscard]] bool take(const std::string& key, const EntryValue& entry);
    Task<> move_all();
    [[nodiscard]] size_t batch_from(size_t at) const;
    Task<bool> move(std::span<const Listed> batch);
    Task<Result<>> carry_out(std::span<const Listed> batch, std::deque<Visit>& visits,
                             uint64_t& reserved);
    Task<Result<>> find_at(Visit& visit, std::span<const Listed> batch,
                           std::vector<Candidate>& found);
    Task<> release_at(Visit& visit);
    Task<> read(std::vector<Candidate>& found);
    Task<> read_span(std::span<Candidate> span);
    [[nodiscard]] std::byte* memory_of(BlockAddress address) const;
    void make_changes(std::span<Candidate> found, TransactionRecord& record) const;
    // Pauses for as long as the work since `begun` took; longer while there are many updates.
    Task<> pause(Time begun);
    [[nodiscard]] object::ContainerId container_of(const Listed& listed) const;

    Cores& cores_;
    State& state_;
    Publisher& publisher_;
    Committer& committer_;
    Checkpointer& checkpointer_;
    Reactor& reactor_;
    const uint64_t percent_, yields_at_;
    const uint64_t list_bytes_max_;
    const uint64_t batch_blocks_max_;
    const uint64_t record_bytes_max_;
    uint64_t seen_bytes_ = 0;  // bytes that updates have written
    uint64_t credit_ = 0;      // hundredths of blocks that may be moved
    std::vector<std::string> keys_;
    std::vector<Listed> listed_;
    uint64_t list_bytes_ = 0;
    AlignedBuffer memory_;  // of one section
    Time looked_{};
    uint64_t seen_updates_ = 0;
    bool busy_ = false, running_ = false, stopping_ = false;
    StopSource stop_;
    Event ended_;
};

}  // namespace ros2s::engine
