// Publisher: makes a durable group visible, on all cores with its changes.
//
// On one core that is one function call. On several cores, a reader must see all or nothing of a
// transaction. A group is therefore published in two rounds:
//
//   core 0                          each core that the group touches
//   hold, apply own part      ┌──►  hold the group's nodes, which blocks readers; apply its part
//      ▼  all have answered ◄─┘
//   space, summaries, replies
//      ▼
//   release own nodes         ────► release: readers that waited for a held node see the new state
//
// The second round is not awaited: a request after the acknowledgement finds the node held or new.
// Messages from core 0 to a core keep their order, so groups do too.
//
// It also informs core 0 about reads of the media on other cores. The answer to the first round
// determines which groups' displaced blocks may still be read there. When that changes, the core
// reports it (listen()). Blocks are therefore never reused while a read may access them
// (ReadPins).
//
// Used on core 0.
#pragma once
#include <functional>
#include <span>
#include <vector>

#include "core.h"
#include "ros2s/runtime/nursery.h"
#include "state.h"

namespace ros2s::engine {

class Publisher {
  public:
    Publisher(const Environment& env, Cores& cores, State& state);

    using Transactions = std::span<const TransactionRecord>;
    // `pins`: the nodes that the group needs. They stay pinned until publish() returns. One group
    // at a time. Does not suspend in a pool on one core.
    Task<> publish(AppliedGroup group, Transactions transactions, std::span<Node* const> pins);

    // Held while all cores must be between the same two groups: by publish(), and by a checkpoint
    // while it cuts.
    Semaphore turn;

    // Set by the pool: called on core 0 when unread_upto() may have changed.
    std::function<void()> reads_moved;
    // No read on any core uses blocks displaced by groups up to this one.
    [[nodiscard]] uint64_t unread_upto() const;
    // Receives a core's reports until stop_listening().
    Task<> listen(Core& core);
    Task<> stop_listening();
    // Called on that core: a read of its media has ended.
    void read_ended(Core& core);
    // Waits for second rounds in progress.
    Task<> join() { return rounds_.join(); }

  private:
    struct Part;
    void apply_entries(Core& core, const AppliedGroup& group, Transactions transactions,
                       Effects& effects);
    void finish(const AppliedGroup& group, Transactions transactions);
    Task<> apply_at(Core& core, const AppliedGroup& group, Transactions transactions, Part& part);
    Task<> first_round(Core& core, const AppliedGroup& group, Transactions transactions,
                       Part& part);
    void apply_part(Core& core, const AppliedGroup& group, Transactions transactions, Part& part);
    void apply_totals(const AppliedGroup& group, Transactions transactions, std::span<Part> parts);

    Cores& cores_;
    State& state_;
    std::vector<uint64_t> unread_;  // by core; as the other cores reported
    Nursery rounds_;
};

}  // namespace ros2s::engine
