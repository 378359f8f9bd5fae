// UpdateName: names one update for all time, over connections and restarts of every process on its
// path. The library that starts the update creates the name, and all layers pass it on unchanged.
// A store keeps its reply under the name, so that a repetition gets that reply.
#pragma once
#include <compare>
#include <cstdint>

#include "ros2s/base/uuid.h"

namespace ros2s {

// A client (one opened library, 128 random bits), its request slot, and the number within the slot,
// which increases by one from 1. A nil client: the update must not be repeated once it may have
// been done, and no reply is kept.
struct UpdateName {
    static constexpr uint32_t slots_max = 4096;  // of one client
    Uuid client{};
    uint32_t slot = 0;
    uint64_t sequence = 0;
    // Clients are distinguished per owner: the same client, slot and number of another owner name
    // something else. The server that admitted the client sets the owner, because it has the
    // session, and never the client (nil: this process's own).
    Uuid owner{};
    // Distinguishes two requests with one name. 0: the store uses the one of the transaction
    // (object::digest_of()).
    uint64_t digest = 0;
    friend auto operator<=>(const UpdateName&, const UpdateName&) = default;
};

}  // namespace ros2s
