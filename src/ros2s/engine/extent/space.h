// SpaceMap: which blocks of a pool's devices are in use, and where the next ones go.
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
// The `used` bitmap is the durable truth and changes only where a committed group is applied; it
// is what checkpoints write. `available` is what may be written now. A block displaced by group N
// stays in quarantine until a record that proves N durable is itself durable (two generations) and
// no read that started before N was visible still runs; only then may its bytes change. Where its
// device gains by it, it is discarded then, and handed out when that has ended.
//
// Invariants
// - available and used are disjoint; a block in flight, in quarantine or being discarded is in
// neither.
// - reserved(device) <= available(device): a reservation can always be allocated.
// - The last blocks of a device are kept for what writes in place and gives as many back, so that a
// full pool can be written to and truncated; they are not counted among its space.
// - Blocks of a group whose write failed are never made available again.
// - What look_ahead() found stays available until it is allocated: only allocate() takes any away.
//
// Used on the pool's core. Does not suspend.
#pragma once
#include <cstdint>
#include <deque>
#include <string>
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

    // Blocks of one device that follow each other.
    struct Found {
        uint64_t first = 0, blocks = 0;
    };

    // Takes the regions of a checkpoint's cut.
    class CutSink {
      public:
        virtual ~CutSink() = default;
        virtual void region(uint32_t device, uint32_t region, std::string_view bits) = 0;
    };

    // Data lie in blocks [first, end); the others are never handed out. All free.
    void add_device(uint64_t first, uint64_t end);
    [[nodiscard]] uint32_t devices() const { return static_cast<uint32_t>(devices_.size()); }
    // Errors: corrupt (no such region, or a wrong length).
    [[nodiscard]] Result<> load_region(uint32_t device, uint32_t region, std::string_view bits);
    // Recovery is done and its restart record durable: everything that is not used is available.
    void make_available();
    // The same for one device: a new one.
    void make_available(uint32_t device);

    [[nodiscard]] bool contains(BlockAddress address) const;
    // Without those that are kept back.
    [[nodiscard]] uint64_t total_blocks() const;
    [[nodiscard]] uint64_t used_blocks() const;
    // Displaced, and not available yet.
    [[nodiscard]] uint64_t quarantined_blocks() const { return quarantined_ + discarding_; }
    // Who needs blocks: something that makes the pool fuller, or something that displaces as many.
    enum class Need : uint8_t { more, in_place };
    // Not reserved.
    [[nodiscard]] uint64_t available_blocks(uint32_t device, Need need = Need::more) const {
        const Device& of = devices_[device];
        const uint64_t kept = of.reserved + (need == Need::more ? of.kept : 0);
        return of.available > kept ? of.available - kept : 0;
    }
    // Keeps blocks of the device back from now on.
    void keep_back(uint32_t device, uint64_t blocks) { devices_[device].kept = blocks; }
    // Of the device that has most of them: what holds nothing that is visible.
    [[nodiscard]] uint64_t unused_blocks_most() const;
    // Somebody holds a reservation.
    [[nodiscard]] bool has_reservations() const;

    // Sets blocks aside, so that allocate() cannot fail.
    [[nodiscard]] bool reserve(uint32_t device, uint64_t blocks, Need need = Need::more);
    void unreserve(uint32_t device, uint64_t blocks);
    // Turns a reservation into blocks in flight: one run where the free space allows it, otherwise
    // few. Appends to `runs`; what goes on where the last of them ends makes that one longer.
    void allocate(uint32_t device, uint64_t blocks, std::vector<BlockRun>& runs);
    // Finds now where the next `blocks` will go, while there is time: allocations of a few blocks
    // each then lie together, and cost no search. It takes nothing: a larger allocation searches
    // anew.
    void look_ahead(uint32_t device, uint64_t blocks);

    // Both for a group that is being applied. False where the state does not fit (used twice, freed
    // twice).
    bool mark_used(BlockAddress address);
    bool mark_free(BlockAddress address, uint64_t group);
    // Runs of so many blocks of the device are discarded before they are available; 0: none, as
    // long as nothing else is said.
    void set_discard(uint32_t device, uint64_t blocks_least);
    // Makes available what groups up to `group` displaced, except what is to be discarded first,
    // which is appended to `apart`. True when there was anything.
    bool release(uint64_t group, std::vector<BlockRun>& apart);
    // What release() set apart is available.
    void discarded(BlockRun run);
    // The oldest group that has blocks in quarantine; 0: none.
    [[nodiscard]] uint64_t oldest_quarantined() const {
        return quarantine_.empty() ? 0 : quarantine_.front().group;
    }
    // Rules that tests may remove.
    struct Skipped {
        bool quarantine = false;  // freed blocks are available at once
        bool discarding = false;  // what is to be discarded is available before it was
        bool regions = false;     // a cut has one region
    };
    void skip(const Skipped& rules) { skipped_ = rules; }

    // Regions changed since the last cut belong to it; those that change again before they were
    // taken go to the sink first. take() hands over one more; false when there is none left.
    void begin_cut(CutSink& sink);
    bool take();
    [[nodiscard]] size_t dirty_regions() const { return dirty_.size(); }
    [[nodiscard]] size_t memory_bytes() const;

  private:
    struct Device {
        uint64_t first = 0, end = 0;
        uint64_t available = 0, reserved = 0, used = 0, kept = 0;
        uint64_t cursor = 0;
        uint64_t discard_least = 0;  // blocks; 0: nothing is discarded
        std::vector<uint64_t> used_bits, available_bits;
        std::vector<uint8_t> regions;  // flags
        // Available runs in the order in which allocate() takes from them.
        std::vector<Found> found;
        size_t next_found = 0;
        uint64_t found_blocks = 0;  // not yet taken
    };
    static constexpr uint8_t is_dirty = 1, is_in_cut = 2;
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
    [[nodiscard]] static Found next_run(const Device& device, uint64_t from, uint64_t end,
                                        uint64_t enough);
    static void search(Device& device, uint64_t blocks);
    [[nodiscard]] static Found take_found(Device& device, uint64_t blocks);

    std::vector<Device> devices_;
    std::deque<Displaced> quarantine_;
    uint64_t quarantined_ = 0, discarding_ = 0;
    std::vector<Region> dirty_, cut_;
    CutSink* sink_ = nullptr;
    Skipped skipped_;
};

}  // namespace ros2s::engine
