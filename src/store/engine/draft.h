// Draft: one transaction between its request and its journal changes. The steps, in order; the
// caller suspends between them:
//
//   build()    the request alone, without any state; enough to lock and load
//   plan()     locks held, nodes loaded: do the kinds match? which partly written blocks need
//              their old bytes? Core by core, each for the operations on its dkeys
//   (read and verify edges())
//   stage()    copies the payload into the group and checksums the copy
//
// Invariants
// - Until stage() has succeeded, the transaction has no effect outside of this object.
// - Operations see the effects of the earlier ones of the same transaction.
// - The bytes of a block beyond its array's size are zero on the media.
//
// Does not suspend. A request for several cores visits one after the other. stage() uses no core's
// nodes.
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "group.h"
#include "home_devices.h"
#include "key_locks.h"
#include "partial_blocks.h"
#include "partition.h"
#include "ros2s/base/bytes.h"
#include "ros2s/base/inline_vector.h"
#include "state.h"

namespace ros2s::engine {

class Draft {
  public:
    // A block that is written in part, and had bytes before or is kept for PartialBlocks.
    struct Edge {
        uint32_t operation = 0;
        uint64_t block = 0;
        BlockRef base{};       // verified old bytes come from here ...
        AlignedBuffer memory;  // ... into here. From stage() on the new bytes, if they are kept
        bool is_kept = false;
        uint32_t core = 0;  // if it is kept, as the rest:
        PartialBlocks::Name name{};
    };

    // `id`: the request's, with its digest if the request has a client.
    Draft(object::ContainerId container, const object::Transaction& request, const UpdateName& id,
          const Partition& partition, const LockNames& lock_names)
        : container_(container), request_(request), partition_(partition), lock_names_(lock_names) {
        record_.id = id;
    }

    // Errors: unsupported (a window that is not local memory).
    [[nodiscard]] Result<> build(std::shared_ptr<const HomeDevices> homes);
    // The blocks of a device that stage() may need, and those that it has used.
    struct Need {
        uint32_t device = 0;
        uint64_t blocks_max = 0;
        uint64_t staged = 0;
    };
    [[nodiscard]] std::span<const Need> needs() const { return needs_; }
    [[nodiscard]] uint64_t blocks_max() const { return blocks_max_; }
    // Returns true if that core has something to lock.
    [[nodiscard]] bool concerns(uint32_t core) const;
    [[nodiscard]] KeyLocks::WantedLocks locks(uint32_t core) const;
    // Returns true if that core owns the entries under a dkey of this container.
    [[nodiscard]] bool is_on(uint32_t core, object::ObjectId object, std::string_view dkey) const {
        return partition_.core_of(container_, object, dkey) == core;
    }
    [[nodiscard]] bool is_on(uint32_t core, const Change& change) const {
        return change.spans_dkeys() || is_on(core, change.object, change.dkey);
    }
    [[nodiscard]] std::span<Change> changes() { return record_.changes; }
    [[nodiscard]] std::span<const Change> changes() const { return record_.changes; }
    [[nodiscard]] size_t record_bytes_max() const;

    // From now on it must not increase the used space.
    void write_in_place() { in_place_ = true; }
    // Errors: invalid (an array operation on a single value, or a single-value operation on an
    // array); no_space (it would need new blocks, which it must not).
    [[nodiscard]] Result<> plan(uint32_t core, NodeCache& nodes);
    [[nodiscard]] std::vector<Edge>& edges() { return edges_; }
    // After plan() on that core: takes out the blocks that the transaction changes, and uses their
    // bytes for edges().
    void take_partial_blocks(uint32_t core, PartialBlocks& known);
    // When the group is visible, with the locks still held.
    void keep_partial_blocks(uint32_t core, PartialBlocks& known);

    // Adds the use that the operations on that core's dkeys add to the container, after plan()
    // there. Blocks that become holes do not count, nor do keys that are removed after being
    // changed.
    void measure(uint32_t core);
    [[nodiscard]] const Growth& growth() const { return growth_; }

    // Errors: corrupt (the copied bytes do not match the request's checksums). Then the group is as
    // before.
    [[nodiscard]] Result<> stage(Group& group);
    // After stage(), for the group.
    [[nodiscard]] TransactionRecord& record() { return record_; }

    // Sends the blocks for `from` to `to` instead: `from` is full.
    void redirect(uint32_t from, uint32_t to);

  private:
    // The content of a block just before operation `index` of this transaction.
    struct Source {
        enum class From : uint8_t { hole, media, staged } from{};
        BlockRef block{};  // staged: its place in the group, as an address
    };
    enum class Presence : uint8_t { absent, single, array };

    void build_array(const object::Operation& operation, Change& change);
    void need(const Change& change, uint64_t first_block, uint64_t blocks);
    [[nodiscard]] Need& need_of(uint32_t device);
    // The result of earlier operations of the transaction on the block. Empty if they did not
    // change it.
    [[nodiscard]] std::optional<Source> made_before(size_t index, uint64_t block) const;
    [[nodiscard]] Source locate(size_t index, uint64_t block) const;
    [[nodiscard]] Presence presence(size_t index) const;
    [[nodiscard]] bool touched_before(size_t index) const;
    [[nodiscard]] const EntryValue* visible(const Change& change, uint64_t segment) const;
    void plan_write(uint32_t index);
    void plan_zeroes(uint32_t index);
    void add_edge(uint32_t index, uint64_t block);
    void measure_removal(size_t index);
    class UndecidedBlocks;
    // Takes the blocks of the piece that earlier operations of the transaction changed. Returns the
    // number of these that are now holes.
    [[nodiscard]] int64_t holes_made_before(size_t index, const Change::Piece& piece,
                                            UndecidedBlocks& blocks) const;
    // Blocks of the operation that are holes just before it.
    [[nodiscard]] int64_t holes_to_fill(size_t index) const;
    // The bytes of the single value that the operation finds; nothing: there is none.
    [[nodiscard]] std::optional<size_t> value_before(size_t index) const;
    [[nodiscard]] uint64_t array_name(const Change& change) const;
    [[nodiscard]] Edge* edge(size_t index, uint64_t block);
    // Small writes, unless other operations change the same akey.
    [[nodiscard]] bool is_worth_keeping(size_t index) const;
    void keep(size_t index, uint64_t block, const std::byte* memory);
    [[nodiscard]] Result<> stage_change(Group& group, size_t index);
    [[nodiscard]] Result<> fill(Group& group, size_t index, uint64_t block, std::byte* memory,
                                uint32_t& crc);
    void fill_base(Group& group, size_t index, uint64_t block, std::byte* memory);

    object::ContainerId container_;
    const object::Transaction& request_;
    const Partition& partition_;
    const LockNames& lock_names_;
    NodeCache* nodes_ = nullptr;                // while a core plans
    std::shared_ptr<const HomeDevices> homes_;  // from build() on
    uint64_t payload_bytes_ = 0;
    TransactionRecord record_;           // one change per operation, until stage()
    InlineVector<uint8_t, 16> dropped_;  // changes without any effect
    InlineVector<Need, 2> needs_;
    std::vector<uint32_t> redirected_;  // by home device
    uint64_t blocks_max_ = 0;
    bool in_place_ = false;
    Growth growth_;
    std::vector<Edge> edges_;
};

}  // namespace ros2s::engine
