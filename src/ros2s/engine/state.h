// State: what there is once per pool besides nodes: which blocks are in use, the stored replies,
// the containers, and how far the journal is applied. Nodes belong to the cores; a Publisher
// changes both, group by group.
//
// Invariants
// - Between two groups the state is that of one moment: a checkpoint cuts there.
// - Live and in recovery the same functions change it, down to which blocks each record displaced.
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
        bool retiring = false;  // its destruction is under way; not yet committed
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
    // What did not fit: a block used twice or freed twice. Never, unless a rule was removed.
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
    // The reply of a transaction of the group, and what it does to containers.
    void note(const Applying& now, const TransactionRecord& transaction);
    // All of the group has been applied; it had so many transactions.
    void finish(const AppliedGroup& group, size_t transactions);
    // All addresses lie in data areas: what recovery asks of a record before it applies it.
    [[nodiscard]] bool makes_sense(const TransactionRecord& transaction) const;

    // For checkpoints: everything but nodes and space.
    [[nodiscard]] MetaValue meta() const {
        return {pool, applied, next_epoch, wall_time_ns, replies.dropped_upto()};
    }

  private:
    void apply_container(const Applying& now, const Change& change);
};

}  // namespace ros2s::engine
