// State: the parts of a pool that exist once, besides nodes: the used blocks, the stored replies,
// the containers, and the last applied group. Nodes belong to the cores. A Publisher changes both,
// group by group.
//
// Invariants
// - Between two groups the state is of one moment: a checkpoint cuts there.
// - The same functions change it live and in recovery, down to the blocks that each record
//   displaced.
//
// Used on core 0. Does not suspend.
#pragma once
#include <map>
#include <set>

#include "apply.h"
#include "placement.h"
#include "replies.h"
#include "ros2s/engine/extent/space.h"
#include "ros2s/engine/format/record.h"

namespace ros2s::engine {

struct AppliedGroup {
    uint64_t sequence = 0;
    uint64_t first_epoch = 0;
    int64_t wall_time_ns = 0;

    [[nodiscard]] static AppliedGroup of(const RecordHeader& header) {
        return {header.sequence, header.first_epoch, header.wall_time_ns};
    }
    [[nodiscard]] Applying transaction(size_t index, object::ContainerId container) const {
        return {sequence, {first_epoch + index}, WallTime{Duration{wall_time_ns}}, container};
    }
};

class State {
  public:
    struct Container {
        ContainerValue value;
        bool retiring = false;  // its destruction is in progress and not committed
        bool changed = false;   // since the last checkpoint
    };

    explicit State(RepliesOptions options) : replies(options) {}

    SpaceMap space;
    // Of the same devices.
    std::shared_ptr<const Placement> placement = std::make_shared<Placement>();
    Replies replies;
    std::map<object::ContainerId, Container> containers;
    // Removed since the last checkpoint.
    std::vector<object::ContainerId> removed_containers;

    Uuid pool;
    uint64_t applied = 0;  // the last group
    uint64_t next_epoch = 1;
    int64_t wall_time_ns = 0;
    // Conflicts: a block used twice or freed twice. Always 0, unless a rule was switched off.
    uint64_t inconsistencies = 0;

    [[nodiscard]] bool has_container(object::ContainerId id) const {
        const auto found = containers.find(id);
        return found != containers.end() && !found->second.value.retired && !found->second.retiring;
    }

    [[nodiscard]] std::set<object::ContainerId> visible_containers() const;

    void mark_used(BlockAddress address) {
        if (!space.mark_used(address)) ++inconsistencies;
    }
    void mark_free(BlockAddress address, uint64_t group) {
        if (!space.mark_free(address, group)) ++inconsistencies;
    }
    // Applies the transaction's reply and its changes of containers.
    void note(const Applying& now, const TransactionRecord& transaction);
    // All of the group has been applied, with this many transactions.
    void finish(const AppliedGroup& group, size_t transactions);
    // True if all addresses are in data areas. Recovery checks this before it applies a record.
    [[nodiscard]] bool makes_sense(const TransactionRecord& transaction) const;

    // For checkpoints: everything but nodes and space.
    [[nodiscard]] MetaValue meta() const {
        return {pool, applied, next_epoch, wall_time_ns, replies.dropped_upto()};
    }

  private:
    void apply_container(const Applying& now, const Change& change);
};

}  // namespace ros2s::engine
