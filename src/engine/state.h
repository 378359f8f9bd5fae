// State: the visible state of a pool, and the one function that changes it. apply() is called for
// each committed group, in order, live and in recovery alike; so recovery arrives at exactly the
// state that was visible, down to which blocks each record displaced.
//
// Invariants
// - apply() finds every node it needs in memory: Loader::prepare() has loaded and pinned them.
// - Between two calls of apply() the state is that of one group: a checkpoint cuts there.
//
// Used on the pool's core. Does not suspend.
#pragma once
#include <map>
#include <span>

#include "cache.h"
#include "replies.h"
#include "ros2s/engine/extent/space.h"
#include "ros2s/engine/format/change.h"
#include "ros2s/engine/format/keys.h"

namespace ros2s::engine {

// Segments of an array that can hold its first `size` bytes.
[[nodiscard]] constexpr uint64_t segments_of(uint64_t size) {
    constexpr uint64_t bytes = segment_blocks * block_bytes;
    return (size + bytes - 1) / bytes;
}

struct AppliedGroup {
    uint64_t sequence = 0;
    uint64_t first_epoch = 0;
    int64_t wall_time_ns = 0;
};

class State {
  public:
    struct Container {
        ContainerValue value;
        bool retiring = false;  // its destruction is under way; not yet committed
        bool changed = false;   // since the last checkpoint
    };

    explicit State(size_t replies_max) : replies(replies_max) {}

    NodeCache cache;
    SpaceMap space;
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

    void apply(const AppliedGroup& group, std::span<const TransactionRecord* const> transactions);
    // All addresses lie in data areas: what recovery asks of a record before it applies it.
    [[nodiscard]] bool makes_sense(const TransactionRecord& transaction) const;

    // For checkpoints: everything but nodes and space.
    [[nodiscard]] MetaValue meta() const {
        return {pool, applied, next_epoch, wall_time_ns, replies.dropped_upto()};
    }

  private:
    // One transaction being applied.
    struct Now {
        uint64_t group;
        object::Epoch epoch;
        WallTime time;
        object::ContainerId container;
    };
    void apply(const Now& now, const Change& change);
    void apply_array(const Now& now, const Change& change);
    void apply_put(const Now& now, const Change& change);
    void punch_entries(const Now& now, std::string_view from, std::string_view to);
    void punch_object(const Now& now, object::ObjectId object);
    void punch(const Now& now, Node& head, const EntryKey& key);
    void apply_container(const Now& now, const Change& change);

    [[nodiscard]] Node& node(std::string_view key);
    // The blocks [from, to) of one segment become holes; returns how many were none.
    uint64_t free_blocks(const Now& now, Node& node, uint64_t from, uint64_t to);
    [[nodiscard]] Node& segment_node(const Now& now, const Change& change, uint64_t segment,
                                     bool create);
    void make_holes(const Now& now, const Change& change, uint64_t size, SummaryValue& summary);
    void put_blocks(const Now& now, const Change& change, SummaryValue& summary);
    // The summary of an akey, about to change; created where there is none.
    [[nodiscard]] Node& summary_node(const Now& now, object::ObjectId object,
                                     std::string_view akey);
    static void raise_highest(SummaryValue& summary, std::string_view dkey);
};

}  // namespace ros2s::engine
