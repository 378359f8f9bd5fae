#include "ros2s/rpc/options.h"

#include <algorithm>

#include "frame.h"

namespace ros2s::rpc {
namespace {

// The fabric's overhead for a message, in any provider.
constexpr uint64_t message_overhead = 64;
// The parts of a frame that no option bounds: header and a full set of descriptors.
constexpr uint64_t frame_overhead = frame_bytes(2 * windows_max, 0) + message_overhead;

}  // namespace

fabric::Limits ChannelOptions::limits() const {
    return {
        .message_bytes_max = message_bytes_max,
        .incoming_bytes_max = 8 * (message_bytes_max + message_overhead),
        .regions_max = 4096,
        .memory_bytes_max = staging_bytes_max,
    };
}

fabric::Limits ServerOptions::limits() const {
    // Room for every request within the credits, with its cancellation.
    const uint64_t each = std::max<uint64_t>(inline_reply_bytes, frame_overhead);
    return {
        .message_bytes_max = message_bytes_max,
        .incoming_bytes_max = std::max(requests_max * each, 4 * message_bytes_max),
        .outgoing_bytes_max = 2 * requests_max * (inline_reply_bytes + message_overhead),
        .reply_bytes = inline_reply_bytes,
        .operations_max = requests_max * uint32_t{windows_max},
        .regions_max = 4096,
        .memory_bytes_max = window_bytes_max,
    };
}

}  // namespace ros2s::rpc
