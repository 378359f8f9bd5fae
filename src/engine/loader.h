// Loader: brings what the index holds into the NodeCache, on helper threads, and merges scans of
// the index with what has changed since its last checkpoint.
//
// Invariants
// - One load per key at a time: the key's node is `loading` meanwhile, and nobody changes it.
// - A scan that a checkpoint overtook is repeated, so that it sees one state: what the index held
//   at some moment, and every change since then.
//
// Used on the pool's core.
#pragma once
#include <string>
#include <vector>

#include "options.h"
#include "ros2s/base/metrics.h"
#include "ros2s/runtime/sync.h"
#include "state.h"

namespace ros2s::engine {

// Nodes that an operation needs to stay in memory.
class Pins {
  public:
    explicit Pins(NodeCache& cache) : cache_(cache) {}
    Pins(const Pins&) = delete;
    Pins& operator=(const Pins&) = delete;
    ~Pins() { clear(); }
    // The caller has pinned it, or add() does.
    void adopt(Node& node) { nodes_.push_back(&node); }
    void add(Node& node) {
        cache_.pin(node);
        adopt(node);
    }
    // Whoever takes them unpins them.
    [[nodiscard]] std::vector<Node*> take() { return std::move(nodes_); }
    void clear() {
        for (Node* node : nodes_) cache_.unpin(*node);
        nodes_.clear();
    }

  private:
    NodeCache& cache_;
    std::vector<Node*> nodes_;
};

class Loader {
  public:
    Loader(const Env& env, Index& index, NodeCache& cache)
        : env_(env), index_(index), cache_(cache), loaded_(env.reactor) {}

    struct Counters {
        Counter misses, scans;
    };
    Counters counters;

    // The node, where it is in memory. Does not suspend.
    [[nodiscard]] Node* resident(std::string_view key) {
        Node* const node = cache_.find(key);
        return node != nullptr && !node->loading ? node : nullptr;
    }
    // The node, pinned once for the caller. Errors: those of Index::get; corrupt.
    Task<Result<Node*>> load(std::string key);

    // The usual case of prepare(), without suspending: all is in memory. False: it is not, or it
    // takes more than the first segment.
    [[nodiscard]] bool prepare_resident(object::ContainerId container, const Change& change,
                                        Pins& pins);
    // Everything that apply(change) will touch, in memory and pinned. Errors as load(); no_memory
    // when that is more than `bytes_max` (what a punch of very many keys at once can need).
    Task<Result<>> prepare(object::ContainerId container, const Change& change, Pins& pins,
                           size_t bytes_max);

    // One item of a merged scan: a node of the cache, or else a raw value of the index.
    struct Item {
        std::string key;
        const Node* node = nullptr;
        std::string raw;
    };
    struct Page {
        std::vector<Item> items;  // in the order of the scan; nodes are valid until one suspends
        bool more = false;
        std::string next;  // forward: the next `from`; reverse: the next `to`
    };
    // Keys from <= key < to; an empty `to` means no end.
    Task<Result<Page>> scan(std::string from, std::string to, size_t limit, bool reverse = false);

    // A checkpoint has been written: what was dirty may be clean, and gone from the cache.
    void index_changed() { ++generation_; }

  private:
    Task<Result<>> prepare_entry(object::ContainerId container, const Change& change, Pins& pins);
    Task<Result<>> prepare_range(std::string from, std::string to, Pins& pins, size_t bytes_max,
                                 std::vector<std::string>* summaries);
    Task<Result<>> pin(KeyBuilder key, Pins& pins);
    [[nodiscard]] Result<bool> adopt(const Item& item, Pins& pins);

    const Env& env_;
    Index& index_;
    NodeCache& cache_;
    Event loaded_;
    uint64_t generation_ = 0;
};

}  // namespace ros2s::engine
