// Reader: fetches, on the core that has the dkey. The node in that core's cache, or else the index,
// says where the blocks lie and what their CRCs are; they are read through the core's own handles
// of the devices, into the caller's memory where they fit, and verified. Part of an open pool,
// which owns it.
//
// Invariants
// - Bytes that do not match their CRC are never returned as data, and count as rotten only when
// they
//   are so in the engine's own memory.
// - What a fetch has the addresses of is not used again before its reads have ended (read_pins.h).
// - An array is seen as of one moment, however many segments it spans.
#pragma once
#include <span>

#include "publisher.h"
#include "ros2s/object/pins.h"
#include "ros2s/runtime/trace.h"

namespace ros2s::engine {

class Reader {
  public:
    // `pins`: where pin() keeps them.
    Reader(Cores& cores, const State& state, Publisher& publisher, object::PinTable& pins)
        : cores_(cores), state_(state), publisher_(publisher), pins_(pins) {}

    // ObjectStore::fetch(), on any core of the pool.
    Task<Result<>> fetch(const Call& call, object::ContainerId container,
                         std::span<object::FetchItem> items);
    // ObjectStore::pin() and unpin(), on core 0.
    Task<Result<>> pin(const Call& call, object::ContainerId container,
                       const object::Holder& holder, object::FetchItem& item);
    Task<Result<bool>> unpin(const Call& call, object::ContainerId container,
                             const object::Holder& holder, object::ObjectId object);

  private:
    Task<> fetch_item(Core& from, Trace* trace, object::ContainerId container,
                      object::FetchItem& item);
    Task<> fetch_items(Core& from, Trace* trace, object::ContainerId container,
                       std::span<object::FetchItem> items);
    // On the core that has the item.
    Task<> fetch_at(Core& core, Trace* trace, object::ContainerId container,
                    object::FetchItem& item);
    Task<Result<>> fetch_array(Core& core, Trace* trace, object::ContainerId container,
                               object::FetchItem& item, uint64_t size);

    Cores& cores_;
    const State& state_;
    Publisher& publisher_;
    object::PinTable& pins_;
};

// Reads blocks of the media into engine memory and verifies them; on the core, which must know of
// the read (ReadPins), or hold locks under which nothing displaces the blocks. Errors: those of the
// device; corrupt (detail: where in `into` the first bad one ends).
Task<Result<>> read_verified(Core& core, Trace* trace, std::span<const BlockRef> blocks,
                             Bytes into);

}  // namespace ros2s::engine
