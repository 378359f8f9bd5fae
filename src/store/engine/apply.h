// Applies a committed change to the nodes of one core. Its effects beyond these nodes, on space and
// summaries, go to Effects: another core may own those.
//
// Invariants
// - Every node that a change needs is in memory: Loader::prepare_entries() has loaded and pinned
//   it, and has set Change::head.
// - The same functions run live and in recovery, so recovery arrives at the same state.
//
// Used on the core that owns `nodes`. Does not suspend.
#pragma once
#include "cache.h"
#include "ros2s/engine/format/change.h"
#include "ros2s/engine/format/keys.h"

namespace ros2s::engine {

// Segments of an array that can have its first `size` bytes.
[[nodiscard]] constexpr uint64_t segments_of(uint64_t size) {
    constexpr uint64_t bytes = segment_blocks * block_bytes;
    return (size + bytes - 1) / bytes;
}

// The bytes that an akey under a dkey adds to its container's use. Blocks are not included.
[[nodiscard]] constexpr int64_t counted_bytes(size_t dkey, size_t akey, size_t value) {
    return static_cast<int64_t>(object::akey_bytes + dkey + akey + value);
}

// One transaction being applied.
struct Applying {
    uint64_t group = 0;
    object::Epoch epoch{};
    WallTime time{};
    object::ContainerId container{};
};

// A change of the summary of an akey, or of all summaries of a punched object.
struct SummaryChange {
    enum class What : uint8_t { update, object_punched };
    enum class Highest : uint8_t { keep, raise, forget };
    What what{};
    Highest highest{};  // raise: `dkey` is new; forget: it is gone
    object::ContainerId container{};
    object::ObjectId object{};
    object::Epoch epoch{};
    WallTime time{};
    Node* node = nullptr;         // the summary; null: apply_summary() looks it up
    std::string_view akey, dkey;  // valid during the call
    int64_t entries = 0, blocks = 0;
    // The change of the container's use, without the blocks.
    int64_t bytes = 0, values = 0;
};

class Effects {
  public:
    virtual ~Effects() = default;
    virtual void used(BlockAddress address) = 0;
    virtual void freed(BlockAddress address, uint64_t group) = 0;
    virtual void summary(const SummaryChange& change) = 0;
    size_t order = 0;  // position of the applied change in its group
};

// Applies changes of entries. Changes of containers have no nodes.
void apply_change(NodeCache& nodes, const Applying& now, const Change& change, Effects& effects);
// On the core that owns the summaries.
void apply_summary(NodeCache& nodes, const SummaryChange& change);

}  // namespace ros2s::engine
