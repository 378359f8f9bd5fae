// Worker: what one domain has of a network library, on its reactor: it is progressed in each turn
// while there is anything to do, and armed otherwise, so that idle connections cost neither turns
// nor wake-ups. Routes the frames that come to the wires that they are for. The library's part is
// in the functions that a provider implements.
//
// Owned by the domain; used on its core. A library calls back from within progress(), and what it
// tells is only noted where acting on it could destroy what the library is working on.
#pragma once
#include <memory>
#include <unordered_map>
#include <vector>

#include "ros2s/fabric/lanes/greeting.h"
#include "ros2s/fabric/lanes/lane.h"
#include "ros2s/fabric/packet/packet_endpoint.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/ring.h"

namespace ros2s::fabric::lanes {

class LaneWire;

// What a lane is to lead between.
struct Ends {
    PeerAddress peer;
    uint64_t channel = 0;   // ours
    bool connects = false;  // our side of the session does
};

class Worker : public Poller {
  public:
    Worker(Reactor& reactor, Counters& counters);
    Worker(const Worker&) = delete;
    Worker& operator=(const Worker&) = delete;
    ~Worker() override;
    // After its wires are closed. Gives lanes that wind up a while to send what they have.
    Task<> close();

    // What a peer needs to reach this worker.
    [[nodiscard]] virtual const std::vector<std::byte>& address() const noexcept = 0;
    // Errors: unsupported (no way from our device to the peer's), disconnected (none now),
    // no_memory, io.
    [[nodiscard]] virtual Result<std::unique_ptr<Lane>> open_lane(const Ends& ends,
                                                                  LaneUser& user) = 0;

    // Lanes that it can have beside those that wind up or are being set up.
    [[nodiscard]] virtual size_t lanes_max() const noexcept { return SIZE_MAX; }

    // Whether both sides may begin to connect at the same time. If not, the listening one waits for
    // the other's first message, which draws the set-up out.
    [[nodiscard]] virtual bool may_cross() const noexcept = 0;

    [[nodiscard]] Reactor& reactor() noexcept { return reactor_; }
    [[nodiscard]] Flusher& flusher() noexcept { return flusher_; }
    // A channel for the wire: what comes for it goes there. Random, and not zero.
    [[nodiscard]] uint64_t add(LaneWire& wire);
    void remove(uint64_t channel) noexcept { wires_.erase(channel); }
    // The library has something to do: look in the next turn.
    void rouse() noexcept;
    // The wire has something to tell its user: it is asked to in the next turn.
    void attend(LaneWire& wire);
    void forget(LaneWire& wire) noexcept { std::erase(attended_, &wire); }
    // A lane whose wire is closed: sends what it has, within a bound, and ends.
    void wind_up(std::unique_ptr<Lane> lane);
    // Returns when what had come in is taken in, at the latest after `within`.
    Task<> quiet(Duration within);

    bool poll() noexcept override;
    bool prepare_sleep() noexcept override;

  protected:
    // One look at the library; true when there was anything to do.
    virtual bool progress() noexcept = 0;
    // Asks for a wake-up by the event descriptor and looks once more; false when there is work.
    virtual bool arm_events() noexcept = 0;
    // Readable when an armed library has something to do.
    [[nodiscard]] virtual int event_descriptor() const noexcept = 0;
    // Makes it readable.
    virtual void signal() noexcept = 0;
    // All lanes have ended: the library's part does, too. Its wires are gone.
    virtual Task<> end() { co_return; }

    // A frame came: the world's bytes. What makes no sense ends the session whose channel it
    // names, and what names none is dropped. Not `whole`: it is not all there.
    void take(ConstBytes header, ConstBytes frame, bool whole) noexcept;
    // What came is nobody's.
    void refuse() noexcept { counters_.frames_refused.add(); }

  private:
    // Looks in vain before the worker is armed on a core that has other work. A look is a system
    // call on tcp.
    static constexpr uint32_t vain_looks_max = 1024;
    static constexpr int progress_per_turn = 16;
    // Lanes to peers that do not read and do not die. Each may hold some 2 MiB.
    static constexpr size_t winding_up_max = 32;
    static constexpr Duration winding_up_within = std::chrono::seconds(1);

    static Task<> watch(Worker& self);
    bool arm() noexcept;
    bool settle() noexcept;
    void step_lanes(bool force) noexcept;

    Reactor& reactor_;
    Counters& counters_;
    Flusher flusher_;
    std::unordered_map<uint64_t, LaneWire*> wires_;
    std::vector<LaneWire*> attended_;
    std::vector<std::unique_ptr<Lane>> winding_up_;
    bool armed_ = false;
    uint32_t vain_looks_ = 0;

    // The poll on the event descriptor: one at most is with the ring.
    Ring::Operation event_;
    bool event_submitted_ = false;
    std::coroutine_handle<> watcher_{};
    bool stopping_ = false;
    bool closed_ = false;
    Nursery watching_;
};

}  // namespace ros2s::fabric::lanes
