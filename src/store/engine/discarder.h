// Discarder: discards unused blocks on their devices (TRIM), so that a flash drive need not copy
// dead bytes when it erases.
//
//   quarantine ──► waiting ──► the device discards ──► available
//                     └─ an update is short of room: ────▲
//
// Its blocks have left quarantine: nothing durable refers to them and no read uses them, so their
// bytes may change (space.h). They are not available before the device has answered, because a late
// discard would wipe newer data. A crash at any point loses only discards.
//
// The numbers of discards in progress and waiting are bounded; blocks beyond that become available
// without a discard. After an error a device gets no more discards, and the blocks of its
// unfinished discards are not available until the pool is opened again.
//
// Used on core 0.
#pragma once
#include <deque>
#include <functional>
#include <vector>

#include "ros2s/base/metrics.h"
#include "ros2s/device/block_device.h"
#include "ros2s/engine/extent/space.h"
#include "ros2s/runtime/nursery.h"

namespace ros2s::engine {

class Discarder {
  public:
    struct Counters {
        // Executed discards; and bytes that became available without one.
        Counter discards, bytes, left_out_bytes;
    };

    // All outlive it. `told` is called when blocks have become available.
    Discarder(Reactor& reactor, const std::vector<device::BlockDevice*>& devices, SpaceMap& space,
              std::function<void()> told);

    // Runs that SpaceMap::release() appended to `apart`.
    void take(const std::vector<BlockRun>& runs);
    // Makes waiting runs available at once. True if there were any.
    bool hurry();
    [[nodiscard]] bool is_busy() const { return workers_.running() > 0; }
    // Drops waiting discards, and waits for those in progress. The last call.
    Task<> stop();

    Counters counters;

  private:
    Task<> work();
    Task<> discard(BlockRun run);
    void leave_out(BlockRun run);
    void leave_out_of(uint32_t device);

    const std::vector<device::BlockDevice*>& devices_;
    SpaceMap& space_;
    std::function<void()> told_;
    std::deque<BlockRun> waiting_;
    Nursery workers_;
};

}  // namespace ros2s::engine
