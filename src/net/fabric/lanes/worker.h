// Worker: one domain's part of a network library, on its reactor. While there is work, each turn
// makes progress on it. Otherwise it is armed, so that idle connections cost neither turns nor
// wake-ups. It passes arriving frames to their wires. A provider implements the functions for its
// library.
//
// Owned by the domain; used on its core. A library calls back from within progress(). Such a call
// is only noted if acting on it could destroy an object that the library is using.
#pragma once
#include <cstddef>
#include <memory>
#include <unordered_map>
#include <vector>

#include "ros2s/fabric/counters.h"
#include "ros2s/fabric/lanes/greeting.h"
#include "ros2s/fabric/lanes/worker.h"
#include "ros2s/fabric/packet/packet_endpoint.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/ring.h"

namespace ros2s::fabric::lanes {

// Lane: the connection to one peer through a network library, and what is being sent on it.
//
// It may outlive its wire. When a session ends, the worker takes over its lane. The worker ends the
// lane when all its data is sent, or when the peer is found to be gone.

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

class LaneWire;

// The two sides that a lane connects.
struct Ends {
    PeerAddress peer;
    uint64_t channel = 0;   // ours
    bool connects = false;  // our side of the session connects
};

class Worker : public Poller {
  public:
    Worker(Reactor& reactor, Counters& counters);
    Worker& operator=(Worker&&) = delete;
    ~Worker() override;
    // After its wires are closed. Gives lanes that wind up some time to send what they have.
    Task<> close();

    // The address by which a peer reaches this worker.
    [[nodiscard]] virtual const std::vector<std::byte>& address() const noexcept = 0;
    // Errors: unsupported (no way from our device to the peer's), disconnected (none now),
    // no_memory, io.
    [[nodiscard]] virtual Result<std::unique_ptr<Lane>> open_lane(const Ends& ends,
                                                                  LaneUser& user) = 0;

    // Lanes that may exist beside those that wind up or are being set up.
    [[nodiscard]] virtual size_t lanes_max() const noexcept { return SIZE_MAX; }

    // Returns true if both sides may begin to connect at the same time. If not, the listening side
    // waits for the other's first message, which makes the set-up longer.
    [[nodiscard]] virtual bool may_cross() const noexcept = 0;

    [[nodiscard]] Reactor& reactor() noexcept { return reactor_; }
    [[nodiscard]] Flusher& flusher() noexcept { return flusher_; }
    // A channel for the wire: frames with this number go to it. Random, and not zero.
    [[nodiscard]] uint64_t add(LaneWire& wire);
    void remove(uint64_t channel) noexcept { wires_.erase(channel); }
    // The library has work: look in the next turn.
    void mark_busy() noexcept;
    // The wire has an event for its user: the next turn calls the wire's deliver_events().
    void queue_event(LaneWire& wire);
    void forget(LaneWire& wire) noexcept { std::erase(queued_, &wire); }
    // A lane whose wire is closed: sends what it has, within a bound, and ends.
    void wind_up(std::unique_ptr<Lane> lane);
    // Returns when everything that had arrived is received, at the latest after `within`.
    Task<> quiet(Duration within);

    bool poll() noexcept override;
    bool prepare_sleep() noexcept override;

  protected:
    // Looks at the library once; true if there was work.
    virtual bool progress() noexcept = 0;
    // Requests a wake-up by the event descriptor and looks once more; false if there is work.
    virtual bool arm_events() noexcept = 0;
    // Readable when an armed library has something to do.
    [[nodiscard]] virtual int event_descriptor() const noexcept = 0;
    // Makes the descriptor readable.
    virtual void signal() noexcept = 0;
    // All lanes have ended and its wires are gone: ends the library's part.
    virtual Task<> end() { co_return; }

    // A frame has arrived: untrusted bytes. A malformed frame ends the session of the channel that
    // it names. A frame without a known channel is dropped. Not `whole`: a part of it is missing.
    void take(ConstBytes header, ConstBytes frame, bool whole) noexcept;
    // The frame belongs to no session.
    void refuse() noexcept { counters_.frames_refused.add(); }

  private:
    // Looks without result before the worker is armed on a core that has other work. Over tcp a
    // look is a system call.
    static constexpr uint32_t empty_polls_max = 1024;
    static constexpr int progress_per_turn = 16;
    // Lanes to peers that neither read nor die. Each may hold some 2 MiB.
    static constexpr size_t winding_up_max = 32;
    static constexpr Duration winding_up_within = std::chrono::seconds(1);

    static Task<> watch(Worker& self);
    bool arm() noexcept;
    bool deliver_events() noexcept;
    void step_lanes(bool force) noexcept;

    Reactor& reactor_;
    Counters& counters_;
    Flusher flusher_;
    std::unordered_map<uint64_t, LaneWire*> wires_;
    std::vector<LaneWire*> queued_;
    std::vector<LaneWire*> delivered_;  // in this turn; kept for its memory
    std::vector<std::unique_ptr<Lane>> winding_up_;
    bool armed_ = false;
    uint32_t empty_polls_ = 0;

    // The poll on the event descriptor; at most one is in the ring.
    Ring::Operation event_;
    bool event_submitted_ = false;
    std::coroutine_handle<> watcher_{};
    bool stopping_ = false;
    bool closed_ = false;
    Nursery watching_;
};

}  // namespace ros2s::fabric::lanes
