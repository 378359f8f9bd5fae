// Lane: an endpoint of UCX and what is being sent on it.
//
// It may outlive its wire. UCX 1.13 over tcp must not be made to drop an endpoint that still has
// something to send: what is left of it then crashes when the peer's socket breaks (it handles
// "readable" and "writable" of one event, and the first frees what the second uses). So a session
// that ends leaves its lane to the worker, which first lets it send what it has, or hear that the
// peer is gone, and closes it then.
//
// UCX calls back in the middle of its own work: nothing is closed from there.
#pragma once
#include <array>

#include "context.h"
#include "greeting.h"
#include "ros2s/fabric/counters.h"
#include "ros2s/fabric/packet/packet_endpoint.h"

namespace ros2s::fabric::ucx {

// Told by a lane, possibly from within UCX: act later.
class LaneUser {
  public:
    virtual void lane_sent() noexcept = 0;
    virtual void lane_failed(End how) noexcept = 0;

  protected:
    ~LaneUser() = default;
};

class Lane {
  public:
    // Errors: unsupported (no way from our device to the peer's), no_memory, io.
    [[nodiscard]] static Result<std::unique_ptr<Lane>> open(const Context& context,
                                                            const PeerAddress& peer,
                                                            LaneUser& user);
    Lane(const Lane&) = delete;
    Lane& operator=(const Lane&) = delete;
    ~Lane();

    // An empty message where there is no frame. The frame comes back by take_sent().
    void send(Frame* frame) noexcept;
    // One whose send has ended, well or not; null where there is none.
    [[nodiscard]] Frame* take_sent() noexcept;
    // Frames that UCX still reads.
    [[nodiscard]] size_t frames_under_way() const noexcept;
    // The user is told nothing from now on.
    void leave() noexcept { user_ = nullptr; }
    // A step towards its end; true when it is there. With `force`, without waiting for the peer.
    [[nodiscard]] bool wind_up(bool force) noexcept;

  private:
    // UCX needs the header, too, until the send is complete.
    struct Sending {
        FrameHeader header;
        Frame* frame = nullptr;
        Lane* lane = nullptr;
        Sending* next = nullptr;
    };
    enum class State : uint8_t { open, flushing, closing, closed };
    // Frames, and the first message.
    static constexpr size_t sendings_max = PacketEndpoint::frames_max + 1;

    Lane(const UcxLibrary& ucx, LaneUser& user);
    static void sent(void* request, ucs_status_t status, void* sending) noexcept;
    static void ended(void* request, ucs_status_t status, void* self) noexcept;
    static void failed(void* self, ucp_ep_h endpoint, ucs_status_t status) noexcept;
    void fail(ucs_status_t status) noexcept;
    void complete(Sending& sending) noexcept;
    void begin_flush() noexcept;
    void begin_close() noexcept;

    const UcxLibrary& ucx_;
    LaneUser* user_;
    ucp_ep_h endpoint_ = nullptr;
    uint64_t peer_channel_ = 0;
    uint64_t sequence_ = 0;
    State state_ = State::open;
    bool failed_ = false;
    size_t sends_ = 0;     // with UCX
    size_t requests_ = 0;  // the flush and the close
    std::array<Sending, sendings_max> sendings_;
    Sending* free_ = nullptr;
    Sending* sent_ = nullptr;
};

}  // namespace ros2s::fabric::ucx
