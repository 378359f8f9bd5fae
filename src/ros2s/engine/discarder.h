// Discarder: tells devices which of their blocks hold nothing any more (TRIM), so that a flash
// drive need not carry dead bytes about when it erases.
//
//   quarantine ──► waiting ──► the device discards ──► available
//                     └─ an update is short of room: ────▲
//
// What comes here has left quarantine: nothing durable refers to it, and nobody reads it, so that
// its bytes may change (space.h). Until the device has answered the blocks are handed to nobody: a
// discard that is carried out late would wipe what was written meanwhile. A crash at any point
// loses no more than the discards.
//
// Bounded: so many at a time, so many waiting; what is beyond that becomes available as it is.
// After an error a device gets no more of them, and what may still be discarded is handed to nobody
// until the pool is opened again.
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
        // Those that devices carried out; and bytes that became available without.
        Counter discards, bytes, left_out_bytes;
    };

    // All outlive it. `told` is called when blocks have become available.
    Discarder(Reactor& reactor, const std::vector<device::BlockDevice*>& devices, SpaceMap& space,
              std::function<void()> told);

    // Runs that SpaceMap::release() set apart.
    void take(const std::vector<BlockRun>& runs);
    // Makes what waits available at once. True where there was any.
    bool hurry();
    [[nodiscard]] bool is_busy() const { return workers_.running() > 0; }
    // Leaves out what waits, and waits for the rest. The last call.
    Task<> stop();

    // A rule that tests may remove: what could not be discarded is available nevertheless.
    void hand_out_failed() { hands_out_failed_ = true; }

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
    bool hands_out_failed_ = false;
};

}  // namespace ros2s::engine
