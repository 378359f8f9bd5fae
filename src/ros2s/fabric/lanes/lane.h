// Lane: the way to one peer through a network library, and what is being sent on it.
//
// It may outlive its wire: a session that ends leaves its lane to the worker, which first lets it
// send what it has, or hear that the peer is gone, and ends it then.
#pragma once
#include <cstddef>

#include "ros2s/fabric/counters.h"
#include "ros2s/fabric/packet/packet_endpoint.h"

namespace ros2s::fabric::lanes {

// Told by a lane, possibly from within the library: act later.
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
    // An empty message where there is no frame. The frame comes back by take_sent().
    virtual void send(Frame* frame) noexcept = 0;
    // One whose send has ended, well or not; null where there is none.
    [[nodiscard]] virtual Frame* take_sent() noexcept = 0;
    // Frames that the library still reads.
    [[nodiscard]] virtual size_t frames_under_way() const noexcept = 0;
    // A frame that is sent holds so much at most.
    [[nodiscard]] virtual size_t frame_bytes_max() const noexcept { return frame_bytes; }
    // None: the library moves frames alone.
    [[nodiscard]] virtual OneSided* one_sided() noexcept { return nullptr; }
    // The user is told nothing from now on.
    virtual void leave() noexcept = 0;
    // A step towards its end; true when it is there. With `force`, without waiting for the peer.
    [[nodiscard]] virtual bool wind_up(bool force) noexcept = 0;
};

}  // namespace ros2s::fabric::lanes
