// MessageLane: the connection to one peer by a message endpoint of its own. Its memory for arriving
// messages is its own, too, so each arriving message is known to be from this peer.
//
// Frames are copied into registered buffers. Then their owner may use them again. Frames that come
// before the connection is made, or while the adapter has enough, wait here in order.
#pragma once
#include <deque>
#include <vector>

#include "message_context.h"
#include "message_transfers.h"
#include "packet_buffers.h"
#include "ros2s/fabric/lanes/greeting.h"
#include "ros2s/fabric/lanes/worker.h"

namespace ros2s::fabric::ofi {

class MessageWorker;

class MessageLane final : public lanes::Lane {
  public:
    // Connects, or waits for the peer to connect; connect() and accept() say when to begin.
    MessageLane(MessageWorker& worker, const lanes::Ends& ends, lanes::LaneUser& user);
    MessageLane& operator=(MessageLane&&) = delete;
    ~MessageLane() override;
    // Errors: unsupported (no way to this address), no_memory.
    [[nodiscard]] Result<> connect(ConstBytes address);
    [[nodiscard]] bool waits_for(uint64_t channel) const noexcept {
        return endpoint_ == nullptr && !connects_ && !failed_ && channel == channel_;
    }
    void accept(fi_info& request) noexcept;

    void send(Frame* frame) noexcept override;
    [[nodiscard]] Frame* take_sent() noexcept override;
    [[nodiscard]] size_t frames_under_way() const noexcept override { return frames_; }
    [[nodiscard]] OneSided* one_sided() noexcept override { return &transfers_; }
    void leave() noexcept override { user_ = nullptr; }
    [[nodiscard]] bool wind_up(bool force) noexcept override;

    // Called by the worker with libfabric's reports.
    [[nodiscard]] bool is(const fid* endpoint) const noexcept {
        return endpoint_ != nullptr && &endpoint_->fid == endpoint;
    }
    void connected() noexcept;
    // The peer has left. The user is notified when everything that the peer sent before is
    // received.
    void left() noexcept { left_ = true; }
    [[nodiscard]] bool has_left() const noexcept { return left_; }
    enum class Outcome : uint8_t { well, refused, lost };
    void completed(PacketBuffer& buffer, size_t length, Outcome outcome) noexcept;
    void fail(End how) noexcept;
    // Called by its transfers: there is something to post.
    void hand_over() noexcept;
    void disconnect() noexcept;

  private:
    bool prepare(Handle<fid_ep> endpoint) noexcept;
    bool receive_into(PacketBuffer& buffer) noexcept;
    void received(PacketBuffer& buffer, size_t length) noexcept;
    bool post(const Frame* frame) noexcept;
    void complete(Frame* frame) noexcept;

    MessageWorker& worker_;
    lanes::LaneUser* user_;
    const uint64_t channel_;       // ours
    const uint64_t peer_channel_;  // the peer's
    const bool connects_;
    Handle<fid_ep> endpoint_;
    MessageTransfers transfers_;
    bool connected_ = false;
    bool left_ = false;
    bool failed_ = false;
    bool ended_ = false;
    uint64_t sequence_ = 0;
    size_t sends_ = 0;   // that the adapter has
    size_t frames_ = 0;  // given to us and not yet taken back
    std::deque<Frame*> waiting_;
    std::vector<Frame*> sent_;
};

}  // namespace ros2s::fabric::ofi
