#include "ros2s/rpc/options.h"

#include <algorithm>

#include "frame.h"

namespace ros2s::rpc {
namespace {

// The fabric's overhead for a message, in any provider.
constexpr uint64_t message_overhead = 64;
// The parts of a frame that no option bounds: header and a full set of descriptors.
constexpr uint64_t frame_overhead = frame_bytes(2 * windows_max, 0) + message_overhead;
// Reserved with each request: a reply up to this size never waits. One with 4 KiB of payload is
// smaller.
constexpr uint32_t reserved_reply_bytes = 5 << 10;
// Shared memory that a client may use for its windows, if the provider has to make it.
constexpr uint64_t window_bytes_max = uint64_t{160} << 20;

}  // namespace

fabric::Limits ChannelOptions::limits() const {
    return {
        .message_bytes_max = message_bytes_max,
        .incoming_bytes_max = 8 * (message_bytes_max + message_overhead),
        .regions_max = 4096,
        .memory_bytes_max = staging_bytes_max,
        .memory_bytes_first = staging_bytes_first,
    };
}

// Each request within the credits has room, if its body and payload are in windows, and so have its
// cancellation and a reply of the reserved size.
static_assert(ServerOptions().requests_max * (frame_overhead + frame_bytes(0, 0)) <=
              ServerOptions::requests_bytes_max);
static_assert(ServerOptions().requests_max * (reserved_reply_bytes + message_overhead) <=
              ServerOptions::replies_bytes_max);
static_assert(frame_bytes(0, failure_bytes_max) <= reserved_reply_bytes);

fabric::Limits ServerOptions::limits() const {
    return {
        .message_bytes_max = message_bytes_max,
        .incoming_bytes_max = requests_bytes_max,
        .outgoing_bytes_max = replies_bytes_max,
        .reply_bytes = std::min(inline_reply_bytes, reserved_reply_bytes),
        .regions_max = 4096,
        .memory_bytes_max = window_bytes_max,
    };
}

}  // namespace ros2s::rpc
