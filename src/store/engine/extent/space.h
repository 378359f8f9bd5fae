// SpaceMap: the state of the blocks of a pool's devices, and the choice of the next ones.
//
// A block is in one of five states:
//
//       allocate()                apply: mark_used()
//   available ---------> in flight ---------> used
//       ^  ^                                    | apply: mark_free()
//       |  |      release(proven, reads)        v
//       |  +-------------------------------- quarantine
//       |                                       | release(), worth a discard
//       +---------------------------------- discarding
//                    discarded()
//
// The `used` bitmap is the durable truth. It changes only when a committed group is applied, and
// checkpoints write it. `available` blocks may be written now. A block displaced by group N leaves
// quarantine under two conditions: a record that proves N durable is itself durable, and all reads
// that began before N was visible have ended. Then its bytes may change. If its device benefits
// from it, the block is first discarded, and is available when the discard has ended.
//
// Invariants
// - available and used are disjoint. A block in flight, in quarantine or discarding is in neither.
// - reserved(device) <= available(device): a reservation can always be allocated.
// - The last blocks of a device are reserved for writes in place, which free as many blocks as they
//   use. A full pool can therefore be overwritten and truncated. These blocks do not count as its
//   space.
// - Blocks of a group whose write failed are never made available again.
// - Blocks that look_ahead() found stay available until allocate() takes them.
//
// A section is an aligned part of a device, usually 1 MiB. It is clear if all of its blocks are
// available. allocate() takes clear sections where the neighbourhood has no run that is long
// enough. Small allocations leave some clear sections for large ones. The cleaner (cleaner.h) makes
// sections clear again: it chooses victims, and moves their used blocks elsewhere. Meanwhile
// allocate() avoids the victims, as long as the device has other blocks.
//
// Used on the pool's core. Does not suspend.
#pragma once
#include <cstdint>
#include <deque>
#include <span>
#include <string_view>
#include <vector>

#include "ros2s/base/result.h"
#include "ros2s/engine/format/address.h"

namespace ros2s::engine {

struct BlockRun {
    BlockAddress first{};
    uint32_t blocks = 0;
    friend bool operator==(const BlockRun&, const BlockRun&) = default;
};

class SpaceMap {
  public:
    // Blocks of one index value.
    static constexpr uint64_t region_blocks = 32768;
    // Small allocations leave 1/clear_left_share of the unused blocks in clear sections.
    static constexpr uint64_t clear_left_share = 16;

    // Contiguous blocks of one device.
    struct FreeRun {
        uint64_t first = 0, blocks = 0;
    };

    // Receives the regions of a checkpoint's cut.
    class CutSink {
      public:
        virtual ~CutSink() = default;
        virtual void region(uint32_t device, uint32_t region, std::string_view bits) = 0;
    };

    // Blocks of a section: a power of two, at most region_blocks. Called before add_device().
    void set_section_blocks(uint32_t blocks);
    [[nodiscard]] uint32_t section_blocks() const { return section_blocks_; }
    // Data is in blocks [first, end), all free; other blocks are never allocated.
    void add_device(uint64_t first, uint64_t end);
    [[nodiscard]] uint32_t devices() const { return static_cast<uint32_t>(devices_.size()); }
    // Errors: corrupt (no such region, a wrong length, or a used block outside the data area).
    [[nodiscard]] Result<> load_region(uint32_t device, uint32_t region, std::string_view bits);
    // Recovery is done and its restart record durable: all blocks that are not used are available.
    void make_available();
    // The same for one new device.
    void make_available(uint32_t device);

    [[nodiscard]] bool contains(BlockAddress address) const;
    // Bit n of word n / 64 is set if block n of the device is in use.
    [[nodiscard]] std::span<const uint64_t> used_bits(uint32_t device) const {
        return devices_[device].used_bits;
    }
    // Without the reserved last blocks.
    [[nodiscard]] uint64_t total_blocks() const;
    [[nodiscard]] uint64_t used_blocks() const;
    // Displaced blocks that are not available yet.
    [[nodiscard]] uint64_t quarantined_blocks() const { return quarantined_ + discarding_; }
    // The purpose of blocks: more data, or an overwrite that displaces as many.
    enum class Need : uint8_t { more, in_place };
    // Available blocks that are not reserved.
    [[nodiscard]] uint64_t available_blocks(uint32_t device, Need need = Need::more) const {
        const Device& of = devices_[device];
        const uint64_t kept = of.reserved + (need == Need::more ? of.kept : 0);
        return of.available > kept ? of.available - kept : 0;
    }
    // From now on reserves the device's last blocks.
    void keep_back(uint32_t device, uint64_t blocks) { devices_[device].kept = blocks; }
    // Blocks without visible data, of the device that has most of them.
    [[nodiscard]] uint64_t unused_blocks_most() const;
    // True if there is a reservation.
    [[nodiscard]] bool has_reservations() const;

    // Sets blocks aside, so that allocate() cannot fail.
    [[nodiscard]] bool reserve(uint32_t device, uint64_t blocks, Need need = Need::more);
    void unreserve(uint32_t device, uint64_t blocks);
    // Turns a reservation into blocks in flight: one run if the free space allows it, otherwise
    // few. Appends to `runs`; blocks that follow the last run extend it.
    // Blocks that are moved go to clear sections if there are any, also to those that small
    // allocations leave.
    enum class Purpose : uint8_t { update, move };
    void allocate(uint32_t device, uint64_t blocks, std::vector<BlockRun>& runs,
                  Purpose purpose = Purpose::update);
    // Finds the place of the next `blocks` in advance. Allocations of a few blocks each are then
    // contiguous and need no search. It allocates nothing. A larger allocation searches again.
    void look_ahead(uint32_t device, uint64_t blocks);

    // Both are for a group that is being applied. False if the state does not match (used twice,
    // freed twice).
    bool mark_used(BlockAddress address);
    bool mark_free(BlockAddress address, uint64_t group);
    // Runs of at least this many blocks are discarded before they are available; 0, the default:
    // none.
    void set_discard(uint32_t device, uint64_t blocks_least);
    // Makes blocks available that groups up to `group` displaced. Runs that must be discarded first
    // are appended to `apart` instead. True if there was any block.
    bool release(uint64_t group, std::vector<BlockRun>& apart);
    // Makes a run available that release() appended to `apart`.
    void discarded(BlockRun run);
    // The oldest group that has blocks in quarantine; 0: none.
    [[nodiscard]] uint64_t oldest_quarantined() const {
        return quarantine_.empty() ? 0 : quarantine_.front().group;
    }

    // ---- for the cleaner
    // A device's blocks in clear sections, and its unused blocks.
    [[nodiscard]] uint64_t clear_blocks(uint32_t device) const {
        return devices_[device].clear * section_blocks_;
    }
    [[nodiscard]] uint64_t unused_blocks(uint32_t device) const {
        return devices_[device].unused();
    }
    // Chooses victims of a device, which stay victims until they are clear: the sections with the
    // fewest used blocks, as long as these have at most `moves_max` used blocks in all, until they
    // have `gain` blocks that are not used. Returns the number of used blocks in them; 0: there are
    // no victims.
    uint64_t choose_victims(uint32_t device, uint64_t gain, uint64_t moves_max);
    [[nodiscard]] bool is_victim(BlockAddress address) const {
        const Device& of = devices_[address.device()];
        return of.victims > 0 && is_victim(of, address.block());
    }
    // Makes victims ordinary sections again. Also done for a device that has no other blocks left.
    void forget_victims();
    // Blocks that moves have taken and will release. A request that is short of space waits for
    // them.
    void begin_move(uint64_t blocks) { moving_ += blocks; }
    void end_move(uint64_t blocks) { moving_ -= blocks; }
    [[nodiscard]] bool is_moving() const { return moving_ > 0; }
    // Called for a block that cannot be moved. Its section is not chosen again until the pool is
    // reopened.
    void spare(BlockAddress address);

    // A cut has the regions that changed since the last cut. A region that is about to change again
    // goes to the sink first. take() passes one more to the sink; false if none is left.
    void begin_cut(CutSink& sink);
    bool take();
    [[nodiscard]] size_t memory_bytes() const;

  private:
    struct Device {
        uint64_t first = 0, end = 0;
        uint64_t available = 0, reserved = 0, used = 0, kept = 0;
        uint64_t cursor = 0, move_cursor = 0;
        uint64_t discard_least = 0;  // blocks; 0: no discards
        std::vector<uint64_t> used_bits, available_bits;
        std::vector<uint8_t> regions;  // flags
        // By section: its available and its used blocks, and flags.
        std::vector<uint16_t> section_available, section_used;
        std::vector<uint8_t> sections;
        uint64_t clear = 0, victims = 0;  // sections
        // Available runs in the order in which allocate() takes from them.
        std::vector<FreeRun> found;
        size_t next_found = 0;
        uint64_t found_blocks = 0;  // not yet taken

        [[nodiscard]] uint64_t unused() const { return end - first - used; }
    };
    static constexpr uint8_t is_dirty = 1, is_in_cut = 2;
    static constexpr uint8_t is_chosen = 1, is_spared = 2;  // sections
    struct Region {
        uint32_t device, region;
    };
    struct Displaced {
        uint64_t group;
        BlockAddress first;
        uint32_t blocks;
    };
    void touch(uint32_t device, uint64_t block);
    void emit(Region at);
    void give_back(BlockAddress first, uint64_t blocks);
    [[nodiscard]] static FreeRun next_run(const Device& device, uint64_t from, uint64_t end,
                                          uint64_t enough);
    class Longest;
    void search(Device& device, uint64_t blocks, Purpose purpose = Purpose::update) const;
    bool look(const Device& device, uint64_t from, uint64_t end, uint64_t blocks,
              Longest& longest) const;
    [[nodiscard]] bool is_victim(const Device& device, uint64_t block) const {
        return (device.sections[block / section_blocks_] & is_chosen) != 0;
    }
    bool find_clear(Device& device, uint64_t blocks, Purpose purpose) const;
    void count_available(Device& device, uint64_t block, bool more) const;
    void count_word(std::vector<uint16_t>& sections, uint64_t block, uint64_t word) const;
    void forget_victims(Device& device) const;
    [[nodiscard]] static FreeRun take_found(Device& device, uint64_t blocks);

    uint32_t section_blocks_ = 256;
    std::vector<Device> devices_;
    std::deque<Displaced> quarantine_;
    uint64_t quarantined_ = 0, discarding_ = 0, moving_ = 0;
    std::vector<Region> dirty_, cut_;
    CutSink* sink_ = nullptr;
};

}  // namespace ros2s::engine
