// UcxLane: an endpoint of UCX and what is being sent on it.
//
// UCX 1.13 over tcp must not drop an endpoint that still has something to send. If it does, UCX
// crashes when the peer's socket breaks: it handles "readable" and "writable" of one event, and the
// first frees what the second uses. So wind_up() flushes before it closes.
//
// UCX calls back in the middle of its own work. Nothing is closed from such a call.
#pragma once
#include <array>

#include "context.h"
#include "ros2s/fabric/lanes/greeting.h"
#include "ros2s/fabric/lanes/lane.h"

namespace ros2s::fabric::ucx {

inline constexpr unsigned active_message_id = 1;

using lanes::Lane;
using lanes::LaneUser;
using lanes::PeerAddress;

class UcxLane final : public Lane {
  public:
    // Errors: unsupported (no way from our device to the peer's), no_memory, io.
    [[nodiscard]] static Result<std::unique_ptr<Lane>> open(const Context& context,
                                                            const PeerAddress& peer,
                                                            LaneUser& user);
    UcxLane(const UcxLane&) = delete;
    UcxLane& operator=(const UcxLane&) = delete;
    ~UcxLane() override;

    void send(Frame* frame) noexcept override;
    [[nodiscard]] Frame* take_sent() noexcept override;
    [[nodiscard]] size_t frames_under_way() const noexcept override;
    void leave() noexcept override { user_ = nullptr; }
    [[nodiscard]] bool wind_up(bool force) noexcept override;

  private:
    // UCX needs the header, too, until the send is complete.
    struct Sending {
        lanes::FrameHeader header;
        Frame* frame = nullptr;
        UcxLane* lane = nullptr;
        Sending* next = nullptr;
    };
    enum class State : uint8_t { open, flushing, closing, closed };

    UcxLane(const UcxLibrary& ucx, LaneUser& user);
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
    size_t sends_ = 0;     // that UCX has
    size_t requests_ = 0;  // the flush and the close
    std::array<Sending, sendings_max> sendings_;
    Sending* free_ = nullptr;
    Sending* sent_ = nullptr;
};

}  // namespace ros2s::fabric::ucx
