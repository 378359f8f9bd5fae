// Counters belong to one Domain, which is one tenant. They count what its endpoints moved, what was
// refused and why, and how its connections ended. The domain's core writes them, any thread reads
// them.
#pragma once
#include <array>
#include <string_view>

#include "ros2s/base/metrics.h"
#include "ros2s/base/result.h"

namespace ros2s::fabric {

// The reason why a put or get was refused. Counted by the side that refused: the grantor, or the
// initiator if that is the trusted side, which checks (shm).
enum class Refusal : uint8_t {
    malformed,  // not a key at all
    domain,     // a key of another domain
    session,    // a key of another connection
    stale,      // revoked
    expired,    // its lease is over
    right,      // not with this right
    range,      // outside what was granted
    initiator,  // this side does not initiate
    count,
};
[[nodiscard]] std::string_view describe(Refusal refusal) noexcept;
// The error for the caller of put() and get(): invalid (malformed, range), denied, or stale.
[[nodiscard]] Error to_error(Refusal refusal) noexcept;

// The way in which a connection ended.
enum class End : uint8_t {
    none,          // it has not ended
    closed_here,   // close() or abandon()
    closed_there,  // the peer said goodbye
    peer_died,     // it disconnected without a goodbye
    violation,     // the peer broke the protocol
    over_budget,   // the peer used more than it was given
    unanswered,    // the peer did not answer a revocation in time
    failed,        // the provider reported an error
    count,
};
[[nodiscard]] std::string_view describe(End end) noexcept;

struct Counters {
    Counter messages_sent, message_bytes_sent, messages_received, message_bytes_received;
    Counter puts, put_bytes, gets, get_bytes;  // completed, as their initiator
    Counter one_sided, one_sided_bytes;        // of these, by the adapter alone
    Counter maps, mapped_bytes;                // of the peer's memory, used in place
    Counter waits_for_room;                    // sends that had to wait for the peer to read
    Counter grants, revocations;
    Counter connections, handshakes_refused;
    Counter frames_refused;  // they belonged to none of our connections
    std::array<Counter, static_cast<size_t>(Refusal::count)> refusals;
    std::array<Counter, static_cast<size_t>(End::count)> ends;

    [[nodiscard]] Counter& of(Refusal refusal) { return refusals[static_cast<size_t>(refusal)]; }
    [[nodiscard]] Counter& of(End end) { return ends[static_cast<size_t>(end)]; }
    [[nodiscard]] uint64_t of(Refusal refusal) const {
        return refusals[static_cast<size_t>(refusal)].value();
    }
    [[nodiscard]] uint64_t of(End end) const { return ends[static_cast<size_t>(end)].value(); }
    void list(const MetricVisitor& visit) const;
};

}  // namespace ros2s::fabric
