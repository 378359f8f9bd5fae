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
#include <optional>
#include <set>

#include "apply.h"
#include "home_devices.h"
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

// The amount that an update adds to its container's use. Negative: it removes more than it adds.
struct Growth {
    int64_t blocks = 0;
    int64_t bytes = 0;  // without the blocks
    int64_t values = 0;
};

class State {
  public:
    // An update that adds no block and no single value may exceed a cap of bytes by this. An update
    // that truncates or removes may need a small write first.
    static constexpr uint64_t beyond_cap_bytes = 64 << 10;

    // Of one owner: the sums over its containers, also over those that are being removed.
    struct OwnedSpace {
        object::Amount used{}, reserved{}, caps{};
        uint64_t containers = 0;
        uint64_t refusals = 0;
    };
    struct Container {
        ContainerValue value;
        bool retiring = false;        // its destruction is in progress and not committed
        bool changed = false;         // since the last checkpoint
        object::Amount reserved{};    // of transactions that are not applied yet
        OwnedSpace* owner = nullptr;  // null: no owner
        uint64_t refusals = 0;
        std::optional<Time> told{};  // the time of the last log line about a refusal
    };

    explicit State(RepliesOptions options) : replies(options) {}

    SpaceMap space;
    // Of the same devices.
    std::shared_ptr<const HomeDevices> homes = std::make_shared<HomeDevices>();
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

    // ---- use of containers. Every change of it is in the journal record that causes it.
    std::map<std::string, OwnedSpace, std::less<>> owners;
    // Once, after the containers have been loaded.
    void find_owners();
    void set_owner_caps(const std::map<std::string, object::Amount>& caps);
    // Returns true if an update needs its growth measured.
    [[nodiscard]] bool has_caps(object::ContainerId id) const;
    // Reserves the transaction's use in the caps until it is applied. Errors: over_cap (detail =
    // the cap).
    [[nodiscard]] Result<object::Amount> reserve(object::ContainerId id, const Growth& growth);
    // Releases the reservation of a transaction that will not be applied.
    void unreserve(object::ContainerId id, const object::Amount& reserved);
    void count(const SummaryChange& change);
    // The pool's space as the container sees it, limited by its cap and its owner's cap.
    void narrow(const Container& container, object::PoolSpace& space) const;

    void mark_used(BlockAddress address) {
        if (!space.mark_used(address)) ++inconsistencies;
    }
    void mark_free(BlockAddress address, uint64_t group) {
        if (!space.mark_free(address, group)) ++inconsistencies;
    }
    // Applies the transaction's reply and its changes of containers.
    void note(const Applying& now, const TransactionRecord& transaction);
    // Called when the whole group, with this many transactions, was applied.
    void finish(const AppliedGroup& group, size_t transactions);
    // True if all addresses are in data areas. Recovery checks this before it applies a record.
    [[nodiscard]] bool makes_sense(const TransactionRecord& transaction) const;

    // For checkpoints: the state except nodes and space.
    [[nodiscard]] MetaValue meta() const {
        return {.pool = pool,
                .applied = applied,
                .next_epoch = next_epoch,
                .wall_time_ns = wall_time_ns,
                .replies_dropped_upto = replies.dropped_upto()};
    }

  private:
    void apply_container(const Applying& now, const Change& change);
    void join_owner(Container& container);
    void leave_owner(Container& container);

    // The last container that was counted; null: none.
    object::ContainerId counted_id_{};
    Container* counted_ = nullptr;
};

}  // namespace ros2s::engine
