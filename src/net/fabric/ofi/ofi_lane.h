// OfiLane: what is being sent to one peer through the domain's endpoint. libfabric may not accept a
// message yet, because it still connects or has enough in progress. Such messages wait here, in
// order.
//
// A lane can end with messages in progress. Then the worker owns them until libfabric returns them.
#pragma once
#include "ofi_peers.h"
#include "ros2s/fabric/lanes/greeting.h"
#include "ros2s/fabric/lanes/worker.h"

namespace ros2s::fabric::ofi {

class OfiLane;
class OfiWorker;

// The context that libfabric gets with a message, and returns.
struct Transfer {
    bool outgoing = false;
};
struct Sending : Transfer {
    lanes::FrameHeader header{};
    Frame* frame = nullptr;   // null: the empty first message
    OfiLane* lane = nullptr;  // null: it has ended
    bool under_way = false;   // libfabric has it
    Sending* next = nullptr;
};

class OfiLane final : public lanes::Lane {
  public:
    OfiLane(OfiWorker& worker, Peer& peer, uint64_t channel, lanes::LaneUser& user);
    OfiLane& operator=(OfiLane&&) = delete;
    ~OfiLane() override;

    void send(Frame* frame) noexcept override;
    [[nodiscard]] Frame* take_sent() noexcept override;
    [[nodiscard]] size_t frames_under_way() const noexcept override { return frames_; }
    [[nodiscard]] size_t frame_bytes_max() const noexcept override;
    void leave() noexcept override { user_ = nullptr; }
    [[nodiscard]] bool wind_up(bool force) noexcept override;

    // Called by the worker. Gives waiting messages to libfabric; false if it accepts no more now.
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
