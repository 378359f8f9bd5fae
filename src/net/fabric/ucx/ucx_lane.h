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
#include "ros2s/fabric/lanes/worker.h"

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
    UcxLane& operator=(UcxLane&&) = delete;
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

// UcxWorker: the UCX worker of one domain. Frames are active messages.
class UcxWorker final : public lanes::Worker {
  public:
    UcxWorker(Reactor& reactor, Counters& counters, Context context);
    [[nodiscard]] const std::vector<std::byte>& address() const noexcept override {
        return context_.address();
    }
    [[nodiscard]] Result<std::unique_ptr<lanes::Lane>> open_lane(const lanes::Ends& ends,
                                                                 lanes::LaneUser& user) override;

    [[nodiscard]] bool may_cross() const noexcept override { return true; }

  private:
    bool progress() noexcept override;
    bool arm_events() noexcept override;
    [[nodiscard]] int event_descriptor() const noexcept override {
        return context_.event_descriptor();
    }
    void signal() noexcept override;

    static ucs_status_t came(void* self, const void* header, size_t header_length, void* data,
                             size_t length, const ucp_am_recv_param_t* parameters) noexcept;
    static ucs_status_t drop_unknown(void* self, const void* header, size_t header_length,
                                     void* data, size_t length,
                                     const ucp_am_recv_param_t* parameters) noexcept;
    void set_handlers() noexcept;
    [[nodiscard]] const UcxLibrary& ucx() const noexcept { return context_.ucx(); }
    [[nodiscard]] ucp_worker_h handle() const noexcept { return context_.worker(); }

    Context context_;
    bool called_back_ = false;  // a frame arrived: a coroutine may be ready to continue
};

}  // namespace ros2s::fabric::ucx
