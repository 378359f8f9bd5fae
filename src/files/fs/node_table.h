// NodeTable: the nodes in use, by an open handle or a call in progress. It shows that an orphan is
// open and must not be punched. It orders writers at the end of a file. It caches nothing that the
// store also has, except modes, which are used only for clearing set-id bits.
//
// Invariants
// - A node is in the table exactly while its `pins` is not 0.
// - While `removing`, the pins are one remover and waiters; no call uses the node's contents.
#pragma once
#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <unordered_map>
#include <vector>

#include "caller.h"
#include "file_system.h"
#include "records.h"
#include "ros2s/base/check.h"
#include "ros2s/runtime/sync.h"

namespace ros2s::fs {

// An owner of locks of a file, in one of the two spaces.
struct LockOwner {
    object::LockSpace space{};
    uint64_t mount = 0;
    uint64_t number = 0;
    friend auto operator<=>(const LockOwner&, const LockOwner&) = default;
};

// What this mount has locked of a node.
struct NodeLocks {
    explicit NodeLocks(Reactor& reactor) : turn(reactor, 1) {}
    Semaphore turn;  // one change at a time, so that `by_owner` is what the store has
    std::map<LockOwner, std::vector<object::Lock>> by_owner;
    std::multiset<LockOwner> asking;  // those whose calls lock now, also calls that were given up
    std::vector<object::Lock> uncertain;  // it is unknown whether the store did these
    bool restores = false;                // restore_in_time() runs
    uint64_t unlocks = 0;                 // calls that unlock, so far
    std::set<LockOwner> lost;             // those that have lost locks
    uint64_t losses = 0;
};

struct NodeState {
    NodeState(Reactor& reactor, NodeId id)
        : node(id), writers(reactor, writers_max), removal_ended(reactor) {}

    // A writer holds one unit; a writer at the end of the file holds all.
    static constexpr size_t writers_max = size_t{1} << 30;

    NodeId node;
    uint32_t pins = 0;
    uint32_t handles = 0;   // of the pins, those of open handles
    bool orphaned = false;  // has no name any more; it is removed after the last pin ...
    Time spared_until{};    // ... and this time
    bool removing = false;  // it is being punched, or its pin in the store ends
    // For an open directory: its record as last read. Only this remains after the directory is
    // removed.
    std::unique_ptr<InodeRecord> directory;
    bool held = false;       // pinned in the store, by this mount ...
    uint64_t era = 0;        // ... while pins_era() had this value
    uint32_t flags = 0;      // node_flags when it was opened last
    mode_t set_id_mode = 0;  // mode as last seen; a write looks for set-id bits in it
    Semaphore writers;
    std::unique_ptr<NodeLocks> locks;  // made by the first lock
    Event removal_ended;               // wakes the calls that wait for `removing` to end; never set

    // Something that a change of the contents clears.
    [[nodiscard]] bool may_have(SetIds which) const {
        return set_ids_of(set_id_mode, which) != 0 || (flags & node_flags::has_capabilities) != 0;
    }
};

class NodeTable {
  public:
    explicit NodeTable(Reactor& reactor) : reactor_(reactor) {}
    ~NodeTable() { ROS2S_CHECK(nodes_.empty()); }
    NodeTable& operator=(NodeTable&&) = delete;

    // The node's state, which exists until drop(). Wait until it is not `removing` before you use
    // its contents.
    [[nodiscard]] NodeState& pin(NodeId node) {
        std::unique_ptr<NodeState>& state = nodes_[node.value];
        if (state == nullptr) state = std::make_unique<NodeState>(reactor_, node);
        ++state->pins;
        return *state;
    }
    [[nodiscard]] NodeState* find(NodeId node) {
        const auto found = nodes_.find(node.value);
        return found == nodes_.end() ? nullptr : found->second.get();
    }
    // All nodes, ascending.
    [[nodiscard]] std::vector<NodeId> all() const {
        std::vector<NodeId> nodes;
        for (const auto& [node, state] : nodes_) nodes.push_back({node});
        std::ranges::sort(nodes, {}, &NodeId::value);
        return nodes;
    }
    // Releases a pin. The last pin of an orphan is not released here: it is reaped first.
    void drop(NodeState& state) {
        ROS2S_CHECK(state.pins > 0);
        if (--state.pins == 0) nodes_.erase(state.node.value);
    }

  private:
    Reactor& reactor_;
    std::unordered_map<uint64_t, std::unique_ptr<NodeState>> nodes_;
};

}  // namespace ros2s::fs
