// Loader: loads values of the index into a core's NodeCache, on helper threads if its memory does
// not have them, and merges scans of the index with the changes since its last checkpoint. A scan
// skips entries of other cores' targets.
//
// Invariants
// - One load per key at a time: the key's node is `loading` meanwhile, and is not changed.
// - A scan that a checkpoint overtook is repeated, so that it sees one state: the index's contents
//   at some moment, and every change since then.
// - A loaded value is checked once, when it is decoded: its blocks are in data areas, and its kind
//   fits its key. Users of nodes rely on this.
//
// Used on its core.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "apply.h"
#include "cache.h"
#include "options.h"
#include "partition.h"
#include "ros2s/base/metrics.h"
#include "ros2s/engine/format/address.h"
#include "ros2s/engine/format/block_map.h"
#include "ros2s/runtime/sync.h"

namespace ros2s::engine {

// DataAreas: the blocks of a pool's devices that hold data. A value of the index that names another
// block is corrupt, whatever its checksum says.
class DataAreas {
  public:
    // Of the next device: blocks [first, end).
    void add(uint64_t first, uint64_t end) { areas_.push_back({first, end}); }
    [[nodiscard]] bool contain(BlockAddress address) const {
        if (address.device() >= areas_.size()) return false;
        const Area& area = areas_[address.device()];
        return address.block() >= area.first && address.block() < area.end;
    }
    // All blocks of the map that are not holes.
    [[nodiscard]] bool contain(const BlockMap& map) const {
        for (uint32_t i = 0; i < map.end(); ++i) {
            const BlockAddress address = map.at(i).address;
            if (!address.is_hole() && !contain(address)) return false;
        }
        return true;
    }

  private:
    struct Area {
        uint64_t first = 0, end = 0;
    };
    std::vector<Area> areas_;
};

// Nodes that must stay in memory for an operation.
class Pins {
  public:
    explicit Pins(NodeCache& cache) : cache_(cache) {}
    Pins(Pins&&) = default;  // empties the source
    Pins& operator=(Pins&&) = delete;
    ~Pins() { clear(); }
    // The caller has pinned the node; add() pins it itself.
    void adopt(Node& node) { nodes_.push_back(&node); }
    void add(Node& node) {
        cache_.pin(node);
        adopt(node);
    }
    using Nodes = InlineVector<Node*, 4>;
    [[nodiscard]] const Nodes& nodes() const { return nodes_; }
    // The caller must unpin them.
    [[nodiscard]] Nodes take() { return std::move(nodes_); }
    void clear() {
        for (Node* node : nodes_) cache_.unpin(*node);
        nodes_.clear();
    }

  private:
    NodeCache& cache_;
    Nodes nodes_;
};

// The fault of an entry of the index, apart from its checksum. Empty: none.
[[nodiscard]] std::string_view fault_of(const EntryValue& entry, const std::optional<EntryKey>& key,
                                        const DataAreas& areas);
// The entry, or a range of its array's bytes, for sentences.
[[nodiscard]] std::string place_of(const std::optional<EntryKey>& key);
[[nodiscard]] std::string place_of(const EntryKey& key, object::Extent bytes);

class Loader {
  public:
    Loader(const Environment& env, Index& index, NodeCache& cache, const Partition& partition,
           uint32_t core)
        : env_(env),
          index_(index),
          cache_(cache),
          partition_(partition),
          core_(core),
          loaded_(env.reactor) {}

    struct Counters {
        Counter misses, scans;
    };
    Counters counters;

    // The node, if it is in memory and may be read. Does not suspend.
    [[nodiscard]] Node* resident(std::string_view key) {
        Node* const node = cache_.find(key);
        return node != nullptr && !node->loading && !node->held ? node : nullptr;
    }
    // The node, pinned once for the caller. A caller that will change it need not wait until the
    // last change is published. Errors: those of Index::get; corrupt.
    enum class Purpose : uint8_t { reading, changing };
    Task<Result<Node*>> load(std::string key, Purpose purpose = Purpose::reading);
    // Checks whether a request may go on, on any core. Its stop token is core 0's, so that others
    // compare the time only. Errors: cancelled, deadline.
    [[nodiscard]] Result<> check(const Call& call) const {
        if (core_ == 0) return call.check(env_.reactor);
        const bool passed = call.deadline != Time::max() && env_.reactor.now() >= call.deadline;
        return passed ? fail(Code::deadline) : Result<>();
    }
    // Coroutines that wait for held nodes look again.
    void published() { loaded_.wake_all(); }

    // The request that nodes are loaded for, and the limit of their memory.
    struct Limits {
        const Call& call;
        size_t bytes_max = SIZE_MAX;
    };
    // The usual case of prepare_entries() or prepare_summaries(), without suspending: the node is
    // in memory. False: it is not, or the change needs more than the first segment.
    [[nodiscard]] bool prepare_resident_entry(object::ContainerId container, Change& change,
                                              Pins& pins);
    [[nodiscard]] bool prepare_resident_summary(object::ContainerId container, Change& change,
                                                Pins& pins);
    // Loads and pins this core's entries that `change` affects, and sets change.head. Also loads
    // the summaries that only the entries can name. Errors as load(); no_memory, cancelled,
    // deadline (a change of very many keys at once may need much of both).
    Task<Result<>> prepare_entries(object::ContainerId container, Change& change, Pins& pins,
                                   const Limits& limits, std::vector<std::string>& summaries);
    // The summaries of the change, on the core that owns them (sets change.summary); the others by
    // their keys.
    Task<Result<>> prepare_summaries(object::ContainerId container, Change& change, Pins& pins,
                                     const Limits& limits);
    Task<Result<>> prepare_keys(std::vector<std::string> keys, Pins& pins);

    // One item of a merged scan: a node of the cache, or else a raw value of the index.
    struct Item {
        std::string key;
        const Node* node = nullptr;
        std::string raw;
    };
    struct Page {
        std::vector<Item> items;  // in the order of the scan; nodes are valid until one suspends
        bool more = false;
        std::string next;   // forward: `from` of the next page; reverse: its `to`
        size_t looked = 0;  // keys that were examined, in memory and in the index
        void count_for(const Call& call) const {
            if (call.entries_looked != nullptr) *call.entries_looked += looked;
        }
    };
    // Keys from <= key < to; an empty `to` means no end. A page has the items of `limit` keys of
    // the index and some more nodes in memory. It may have fewer items, also none.
    Task<Result<Page>> scan(std::string from, std::string to, size_t limit, bool reverse = false);

    // Adds the next device's blocks that values may name.
    void add_data_area(uint64_t first, uint64_t end) { areas_.add(first, end); }

    // A checkpoint was written: nodes that were dirty may be clean now, and evicted.
    void index_changed() { ++generation_; }

  private:
    Task<Result<IndexPage>> read(const IndexScan& request);
    Task<Result<>> prepare_entry(object::ContainerId container, Change& change, Pins& pins,
                                 const Limits& limits);
    // For a move.
    Task<Result<>> prepare_segment(object::ContainerId container, Change& change, Pins& pins);
    Task<Result<>> prepare_summary(object::ContainerId container, Change& change, Pins& pins);
    Task<Result<>> prepare_range(std::string from, std::string to, Pins& pins, const Limits& limits,
                                 std::vector<std::string>* summaries);
    Task<Result<Node*>> pin(KeyBuilder key, Pins& pins);
    [[nodiscard]] Node* changeable(std::string_view key) {
        Node* const node = cache_.find(key);
        return node != nullptr && !node->loading ? node : nullptr;
    }
    [[nodiscard]] Result<> decode_into(Node& node, std::string_view raw);
    [[nodiscard]] Result<bool> adopt(const Item& item, Pins& pins);
    [[nodiscard]] Result<> drop_foreign(std::vector<IndexEntry>& entries) const;
    [[nodiscard]] bool is_held(const NodeCache::Range& range);

    const Environment& env_;
    Index& index_;
    NodeCache& cache_;
    const Partition& partition_;
    const uint32_t core_;
    DataAreas areas_;
    uint64_t bad_values_ = 0;  // found so far
    Event loaded_;             // a node has been loaded, or published
    uint64_t generation_ = 0;
};

}  // namespace ros2s::engine
