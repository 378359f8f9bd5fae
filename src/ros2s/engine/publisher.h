// Publisher: makes a durable group visible, on whatever cores its changes lie.
//
// On one core that is one function call. On several, a reader must not see one part of a
// transaction and miss another; so a group is published in two rounds:
//
//   core 0                          each core that the group touches
//   hold, apply own part      ┌──►  hold the group's nodes: nobody may read them; apply its part
//      ▼  all have answered ◄─┘
//   space, summaries, replies
//      ▼
//   let go of own nodes       ────► let go: who waited for a held node reads what is new
//
// The second round is not waited for: a request that comes after the acknowledgement finds the node
// held or new. Messages of core 0 to a core keep their order, so that groups do too.
//
// It also keeps core 0 informed about reads of the media on other cores: the answer to the first
// round says which groups' displaced blocks may still be read there; when that moves, the core
// tells (listen()). So blocks are never reused under a reader (read_pins.h).
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
    Publisher(const Env& env, Cores& cores, State& state);

    using Transactions = std::span<const TransactionRecord* const>;
    // `pins`: the nodes that the group needs, which stay pinned until it has returned. One group at
    // a time. Does not suspend in a pool on one core.
    Task<> publish(AppliedGroup group, Transactions transactions, std::span<Node* const> pins);

    // Held by whoever needs all cores to be between the same two groups: publish(), and a
    // checkpoint while it cuts.
    Semaphore turn;

    // Set by the pool: called on core 0 when unread_upto() may have moved.
    std::function<void()> reads_moved;
    // Blocks displaced by groups up to this one are read by nobody, on any core.
    [[nodiscard]] uint64_t unread_upto() const;
    // Hears from a core until stop_listening().
    Task<> listen(Core& core);
    Task<> stop_listening();
    // On its core: a read of the media there has ended.
    void read_ended(Core& core);
    // Waits for second rounds under way.
    Task<> join() { return rounds_.join(); }

  private:
    struct Part;
    void publish_here(const AppliedGroup& group, Transactions transactions);
    Task<> apply_at(Core& core, const AppliedGroup& group, Transactions transactions, Part& part);
    Task<> first_round(Core& core, const AppliedGroup& group, Transactions transactions,
                       Part& part);
    void apply_part(Core& core, const AppliedGroup& group, Transactions transactions, Part& part);
    void settle(const AppliedGroup& group, Transactions transactions, std::span<Part> parts);

    Cores& cores_;
    State& state_;
    std::vector<uint64_t> unread_;  // by core; what the others have told
    Nursery rounds_;
};

}  // namespace ros2s::engine
