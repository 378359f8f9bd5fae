// NodeCache: the visible state of entries and summaries in memory. Nodes that changed since the
// last checkpoint are dirty and stay in memory. If memory is short, the least recently used other
// nodes are evicted.
//
// A checkpoint's cut is taken without stopping the core: begin_cut() marks all dirty nodes, and
// take() serialises them slice by slice. A node that is about to change before that is serialised
// by modify(). The cut therefore has the state of one moment.
//
// Invariants
// - A node that is dirty, pinned, loading, or part of a checkpoint being written is never evicted.
// - Only apply_change() and apply_summary() change nodes, through modify(). A caller that uses a
//   node across a suspension pins it.
//
// Used on the core that it belongs to. Does not suspend.
#pragma once
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "hash.h"
#include "ros2s/engine/format/values.h"

namespace ros2s::engine {

// Node: the value of one index key in memory: an array's head or segment, a single value, a
// summary, or the fact that the key is absent.
//
// Used on the core that it belongs to.
struct Node {
    struct Delete {
        void operator()(Node* node) const noexcept;
    };
    [[nodiscard]] static std::unique_ptr<Node, Delete> make(std::string_view key, uint32_t core);

    // In the same piece of memory, behind the node.
    const std::string_view key;
    const uint32_t core;
    uint32_t pins = 0;
    bool loading = false;
    bool held = false;  // applied but not yet published: must not be read (publisher.h)
    bool used_lately = true;
    bool dirty = false;    // differs from the index (and from the checkpoint being written)
    bool in_cut = false;   // in the cut, not yet serialised
    bool writing = false;  // part of the checkpoint being written
    std::variant<std::monostate, EntryValue, SummaryValue> value;  // monostate: absent
    uint32_t charged_bytes = 0;
    Node* older = nullptr;  // the clock's list
    Node* newer = nullptr;

    [[nodiscard]] bool is_absent() const { return std::holds_alternative<std::monostate>(value); }
    [[nodiscard]] const EntryValue* entry() const { return std::get_if<EntryValue>(&value); }
    [[nodiscard]] EntryValue* entry() { return std::get_if<EntryValue>(&value); }
    [[nodiscard]] const SummaryValue* summary() const { return std::get_if<SummaryValue>(&value); }
    [[nodiscard]] SummaryValue* summary() { return std::get_if<SummaryValue>(&value); }
};

// The value as the index keeps it. Not for absent nodes.
[[nodiscard]] std::string encode(const Node& node);

// KeyTable: finds nodes by their keys. Open addressing: a look-up reads hashes in one or two
// lines of the processor's cache, and then the node.
//
// Used on the core of its nodes, and does not own them.
class KeyTable {
  public:
    // `hash_key`: see hash.h.
    explicit KeyTable(uint64_t hash_key) : hash_key_(hash_key), places_(least_places) {}

    // Null: there is none.
    [[nodiscard]] Node* find(std::string_view key) const {
        const uint64_t hash = hash_text(key, hash_key_);
        for (size_t at = place(hash); places_[at].node != nullptr; at = place(at + 1)) {
            if (places_[at].hash == hash && places_[at].node->key == key) return places_[at].node;
        }
        return nullptr;
    }
    // No node here has its key.
    void add(Node& node) {
        if (count_ >= places_.size() / 2) grow();
        put({hash_text(node.key, hash_key_), &node});
        ++count_;
    }
    // The node is here.
    void remove(const Node& node) {
        size_t hole = place(hash_text(node.key, hash_key_));
        while (places_[hole].node != &node) hole = place(hole + 1);
        // A look-up ends at a free place. So a later node that was not placed behind the hole moves
        // into it.
        for (size_t at = place(hole + 1); places_[at].node != nullptr; at = place(at + 1)) {
            const size_t from_its_place = place(at - place(places_[at].hash));
            if (from_its_place < place(at - hole)) continue;
            places_[hole] = places_[at];
            hole = at;
        }
        places_[hole] = {};
        --count_;
    }
    [[nodiscard]] size_t count() const { return count_; }

  private:
    struct HashedNode {
        uint64_t hash = 0;
        Node* node = nullptr;  // null: free
    };
    static constexpr size_t least_places = 1024;

    [[nodiscard]] size_t place(size_t hash) const { return hash & (places_.size() - 1); }
    void put(const HashedNode& one) {
        size_t at = place(one.hash);
        while (places_[at].node != nullptr) at = place(at + 1);
        places_[at] = one;
    }
    void grow() {
        std::vector<HashedNode> old(places_.size() * 2);
        old.swap(places_);
        for (const HashedNode& one : old) {
            if (one.node != nullptr) put(one);
        }
    }

    const uint64_t hash_key_;
    std::vector<HashedNode> places_;
    size_t count_ = 0;
};

class NodeCache {
  public:
    // `hash_key`: see hash.h.
    NodeCache(uint32_t core, uint64_t hash_key);
    NodeCache& operator=(NodeCache&&) = delete;
    ~NodeCache();

    // Null if the key is not in memory. The node may be loading.
    [[nodiscard]] Node* find(std::string_view key) {
        Node* const node = table_.find(key);
        if (node != nullptr) node->used_lately = true;
        return node;
    }
    // The key must not be in memory. The node is absent until it gets a value.
    Node& insert(std::string_view key);
    // For a node that is neither dirty nor pinned: its load failed.
    void erase(Node& node);
    // Call after a clean node got its value from the index.
    void charge(Node& node);

    void pin(Node& node) { ++node.pins; }
    void unpin(Node& node) { --node.pins; }

    // Called before any change to `node`; charge() follows it.
    void modify(Node& node);

    using Order = std::set<Node*, struct ByKey>;
    // A range of the nodes in memory: from <= key < to (an empty `to`: no end). At most `most`
    // nodes: the first in the order of the keys, or the last in reverse order.
    struct Range {
        std::string_view from, to;
        size_t most;
        bool reverse = false;
    };
    // Calls visit(Node&) for the nodes of the range that are not loading. Returns the first node of
    // the key range that exceeded `most`; null: there is none.
    template <class Visit>
    Node* visit(const Range& range, Visit visit);
    // The same for all nodes between two keys, in their order.
    template <class Visit>
    void for_range(std::string_view from, std::string_view to, Visit each) {
        visit({.from = from, .to = to, .most = SIZE_MAX}, each);
    }

    // Receives a node of the cut; an absent node has no value.
    using Sink = std::function<void(const Node&)>;
    void begin_cut(Sink sink);
    // Serialises up to `count` nodes; false when the cut is complete.
    bool take(size_t count);
    // The checkpoint is in the index: its nodes are clean unless changed since.
    void end_cut();

    // Evicts until at most `bytes` are held, as far as clean nodes allow. Examines few nodes, so
    // that it can be called often: several for each node inserted since it last had work.
    void shrink(size_t bytes);
    // The same without a limit on the examined nodes.
    void shrink_fully(size_t bytes);
    [[nodiscard]] size_t bytes() const { return bytes_; }
    [[nodiscard]] size_t dirty_bytes() const { return dirty_bytes_; }
    [[nodiscard]] size_t count() const { return table_.count(); }

  private:
    void shrink(size_t bytes, size_t looks);
    void link(Node& node);
    void unlink(Node& node);
    void destroy(Node& node);
    static size_t size_of(const Node& node);

    const uint32_t core_;
    KeyTable table_;
    std::unique_ptr<Order> order_;
    Node* oldest_ = nullptr;
    Node* newest_ = nullptr;
    std::vector<Node*> dirty_, cut_;
    size_t cut_taken_ = 0;
    Sink sink_;
    size_t bytes_ = 0, dirty_bytes_ = 0;
    size_t inserted_ = 0;  // since shrink()
};

struct ByKey {
    using is_transparent = void;
    bool operator()(const Node* a, const Node* b) const { return a->key < b->key; }
    bool operator()(const Node* a, std::string_view b) const { return a->key < b; }
    bool operator()(std::string_view a, const Node* b) const { return a < b->key; }
};

template <class Visit>
Node* NodeCache::visit(const Range& range, Visit visit) {
    if (!range.to.empty() && range.from >= range.to) return nullptr;
    const auto first = order_->lower_bound(range.from);
    const auto end = range.to.empty() ? order_->end() : order_->lower_bound(range.to);
    size_t left = range.most;
    const auto visit_all = [&](auto at, const auto last) -> Node* {
        for (; at != last; ++at, --left) {
            if (left == 0) return *at;
            if (!(*at)->loading) visit(**at);
        }
        return nullptr;
    };
    if (!range.reverse) return visit_all(first, end);
    return visit_all(std::make_reverse_iterator(end), std::make_reverse_iterator(first));
}

}  // namespace ros2s::engine
