// LaneWire: the frames of one session on its lane (worker.h), and the socket of the set-up. Nothing
// more is sent on that socket. Its hang-up shows that the peer is gone: within moments if the
// process died, within ten seconds if the machine did.
//
// Data on the library's connections may arrive after the hang-up of the socket, so
// - the side that sends the goodbye keeps both until the peer has hung up or the time is over
//   (farewell());
// - the side that sees a hang-up first receives what the library still has (Worker::quiet()).
//
// Frames that arrive go to the user at once. All other events reach the user from deliver_events(),
// which the worker calls between two looks.
#pragma once
#include <vector>

#include "ros2s/fabric/lanes/worker.h"
#include "ros2s/fabric/socket/socket.h"

namespace ros2s::fabric::lanes {

class LaneWire final : public Wire, private LaneUser {
  public:
    // Takes a channel at once. Keeps frames that arrive before start(), within a bound.
    explicit LaneWire(Worker& worker);
    ~LaneWire() override;

    [[nodiscard]] uint64_t channel() const noexcept { return channel_; }
    // Makes the lane to the peer. Errors: Worker::open_lane()'s.
    [[nodiscard]] Result<> open(PeerAddress peer, bool connects);
    // Sends the empty first message.
    void greet() noexcept;
    // Waits for the peer's first message. Errors: disconnected, cancelled.
    Task<Result<>> met(StopToken stop);
    // The set-up is over.
    void keep(Descriptor socket) { socket_ = std::move(socket); }

    [[nodiscard]] OneSided* one_sided() noexcept override { return lane_->one_sided(); }
    [[nodiscard]] size_t frame_bytes_max() const noexcept override {
        return lane_->frame_bytes_max();
    }
    void start(WireUser& user) noexcept override;
    void write(Frame& frame) noexcept override;
    Task<> farewell() override;
    void shut() noexcept override;
    Task<> close() override;

    // Used by the worker.
    bool queued = false;
    void deliver_events() noexcept;
    void came(const FrameHeader& header, ConstBytes frame, bool whole) noexcept;

  private:
    // Frames that may arrive before the user is known.
    static constexpr size_t early_max = 2 * PacketEndpoint::frames_max;
    static constexpr Duration late_frames_within = std::chrono::milliseconds(100);

    static Task<> watch(LaneWire& self);
    void lane_sent() noexcept override;
    void lane_failed(End how) noexcept override { fail_later(how); }
    void give_back() noexcept;
    void fail_later(End how) noexcept;

    Worker& worker_;
    const uint64_t channel_;
    Descriptor socket_;
    std::unique_ptr<Lane> lane_;
    WireUser* user_ = nullptr;
    uint64_t sequence_in_ = 0;
    std::vector<std::vector<std::byte>> early_;

    End failure_ = End::none;
    bool met_ = false;
    bool told_ = false;  // the user, of the failure
    bool shut_ = false;
    Event changed_;
    StopSource stop_;
    Nursery watching_;
};

}  // namespace ros2s::fabric::lanes
