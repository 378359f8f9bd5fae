// OfiLane: what is being sent to one peer through the domain's endpoint. libfabric may not take a
// message yet (it is still connecting, or has enough under way): those wait here, in order.
//
// A lane can end with messages under way: they are the worker's then, until libfabric gives them
// back.
#pragma once
#include "ofi_peers.h"
#include "ros2s/fabric/lanes/greeting.h"
#include "ros2s/fabric/lanes/lane.h"

namespace ros2s::fabric::ofi {

class OfiLane;
class OfiWorker;

// What libfabric is given with a message, and gives back.
struct Transfer {
    bool outgoing = false;
};
struct Sending : Transfer {
    lanes::FrameHeader header{};
    Frame* frame = nullptr;   // none: the empty first message
    OfiLane* lane = nullptr;  // none: it has ended
    bool under_way = false;   // with libfabric
    Sending* next = nullptr;
};

class OfiLane final : public lanes::Lane {
  public:
    OfiLane(OfiWorker& worker, Peer& peer, uint64_t channel, lanes::LaneUser& user);
    OfiLane(const OfiLane&) = delete;
    OfiLane& operator=(const OfiLane&) = delete;
    ~OfiLane() override;

    void send(Frame* frame) noexcept override;
    [[nodiscard]] Frame* take_sent() noexcept override;
    [[nodiscard]] size_t frames_under_way() const noexcept override { return frames_; }
    [[nodiscard]] size_t frame_bytes_max() const noexcept override;
    void leave() noexcept override { user_ = nullptr; }
    [[nodiscard]] bool wind_up(bool force) noexcept override;

    // The worker's. Hands what waits to libfabric; false when it takes no more now.
    bool hand_over() noexcept;
    void came_back(Sending& sending, bool sent) noexcept;
    void fail(End how) noexcept;

  private:
    void complete(Sending& sending) noexcept;

    OfiWorker& worker_;
    Peer* peer_;
    lanes::LaneUser* user_;
    const uint64_t channel_;  // of the peer
    uint64_t sequence_ = 0;
    bool failed_ = false;
    size_t handed_over_ = 0;
    size_t frames_ = 0;
    Sending* waiting_ = nullptr;
    Sending* waiting_last_ = nullptr;
    Sending* sent_ = nullptr;
};

}  // namespace ros2s::fabric::ofi
