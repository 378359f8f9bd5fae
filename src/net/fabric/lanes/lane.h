// Lane: the connection to one peer through a network library, and what is being sent on it.
//
// It may outlive its wire. When a session ends, the worker takes over its lane. The worker ends the
// lane when all its data is sent, or when the peer is found to be gone.
#pragma once
#include <cstddef>

#include "ros2s/fabric/counters.h"
#include "ros2s/fabric/packet/packet_endpoint.h"

namespace ros2s::fabric::lanes {

// Called by a lane, possibly from within the library: act later.
class LaneUser {
  public:
    virtual void lane_sent() noexcept = 0;
    virtual void lane_failed(End how) noexcept = 0;

  protected:
    ~LaneUser() = default;
};

class Lane {
  public:
    // Frames, and the first message.
    static constexpr size_t sendings_max = PacketEndpoint::frames_max + 1;

    virtual ~Lane() = default;
    // A null frame sends an empty message. take_sent() returns the frame.
    virtual void send(Frame* frame) noexcept = 0;
    // A frame after the end of its send, successful or not; null if there is none.
    [[nodiscard]] virtual Frame* take_sent() noexcept = 0;
    // Frames that the library still reads.
    [[nodiscard]] virtual size_t frames_under_way() const noexcept = 0;
    // The size limit of one frame.
    [[nodiscard]] virtual size_t frame_bytes_max() const noexcept { return frame_bytes; }
    // Null: the library moves frames only.
    [[nodiscard]] virtual OneSided* one_sided() noexcept { return nullptr; }
    // From now on the lane does not call the user.
    virtual void leave() noexcept = 0;
    // A step towards its end; true when it has ended. With `force` it does not wait for the peer.
    [[nodiscard]] virtual bool wind_up(bool force) noexcept = 0;
};

}  // namespace ros2s::fabric::lanes
