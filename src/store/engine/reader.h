// Reader: fetches data, on the core that has the dkey. The node in that core's cache, or else the
// index, has the addresses and CRCs of the blocks. They are read through the core's own handles of
// the devices and verified. Whole blocks are read directly into aligned memory of the
// caller. Part of an open pool, which owns it.
//
// Invariants
// - Bytes that do not match their CRC are never returned as data. They count as corrupt only if
//   they also do not match after a read into the engine's own memory.
// - The blocks of a fetch are not reused before its reads have ended (ReadPins).
// - A fetch sees an array at one moment, even if it spans several segments.
#pragma once
#include <span>

#include "pin_holders.h"
#include "publisher.h"
#include "ros2s/object/leases.h"
#include "ros2s/object/locks.h"
#include "ros2s/runtime/trace.h"

namespace ros2s::engine {

class Reader {
  public:
    // pin() stores its pins in `pins`, and their holders in `holders`.
    Reader(Cores& cores, const State& state, Publisher& publisher, object::PinTable& pins,
           object::LockTable& locks, object::LeaseTable& leases, PinHolders& holders)
        : cores_(cores),
          state_(state),
          publisher_(publisher),
          pins_(pins),
          locks_(locks),
          leases_(leases),
          holders_(holders) {}

    // ObjectStore::fetch(), on any core of the pool.
    Task<Result<>> fetch(const Call& call, object::ContainerId container,
                         std::span<object::FetchItem> items);
    // ObjectStore::pin(), unpin() and pinned_again(), on core 0.
    Task<Result<>> pin(const Call& call, object::ContainerId container,
                       const object::Holder& holder, object::FetchItem& item);
    Task<Result<bool>> unpin(const Call& call, object::ContainerId container,
                             const object::Holder& holder, object::ObjectId object);
    Task<Result<bool>> pinned_again(const Call& call, object::ContainerId container,
                                    const object::Holder& holder);
    // ObjectStore::lock(), on core 0.
    Task<Result<std::optional<object::Lock>>> lock(const Call& call, object::ContainerId container,
                                                   const object::Holder& holder,
                                                   const object::LockRequest& request);
    // ObjectStore::listen() and lease(), on core 0.
    Task<Result<object::LeaseNews>> listen(const Call& call, object::ContainerId container,
                                           const object::Holder& holder,
                                           const object::Listening& listening);
    Task<Result<uint64_t>> lease(const Call& call, object::ContainerId container,
                                 const object::Holder& holder, object::ObjectId object);

  private:
    Task<> fetch_item(Core& from, Trace* trace, object::ContainerId container,
                      object::FetchItem& item);
    Task<> fetch_items(Core& from, Trace* trace, object::ContainerId container,
                       std::span<object::FetchItem> items);
    // Called on the core that owns the item.
    Task<> fetch_at(Core& core, Trace* trace, object::ContainerId container,
                    object::FetchItem& item);
    Task<Result<>> fetch_array(Core& core, Trace* trace, object::ContainerId container,
                               object::FetchItem& item, uint64_t size);

    Cores& cores_;
    const State& state_;
    Publisher& publisher_;
    object::PinTable& pins_;
    object::LockTable& locks_;
    object::LeaseTable& leases_;
    PinHolders& holders_;
};

// Reads blocks of the media into engine memory and verifies them, on the core. The caller has
// either announced the read (ReadPins) or holds locks that prevent the blocks' displacement.
// Errors: those of the device; corrupt (detail: where in `into` the first bad block ends).
Task<Result<>> read_verified(Core& core, Trace* trace, std::span<const BlockRef> blocks,
                             Bytes into);

}  // namespace ros2s::engine
