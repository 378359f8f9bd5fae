// PendingPeers: the peers of all listeners of a process that have connected and are not admitted
// yet. Their number and the processor time of their handshakes have one bound for all listeners, so
// that many listeners do not cost more than one.
//
// Invariants
// - A listener has at most Share::most pending peers, and all have at most `most`. If there is one
//   too many, one makes room: of the listener, if it has too many, else of the listeners that have
//   most. Of these the address with the most of them at the listener, then in all, loses its
//   oldest one.
// - One handshake takes a step at a time. After it, three times its duration belongs to other work.
//   The listener whose last step was longest ago has the next one.
// - Lines in the log about them are limited in each second.
//
// Owned by the code that composes the listeners; outlives them. Used on one core.
#pragma once
#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <tuple>

#include "ros2s/fabric/endpoint.h"
#include "ros2s/runtime/stop.h"
#include "ros2s/runtime/sync.h"
#include "ros2s/runtime/task.h"

namespace ros2s::fabric {

class PendingPeer;

class PendingPeers {
  public:
    static constexpr size_t most_of_process = 512;
    explicit PendingPeers(Reactor& reactor, size_t most = most_of_process) noexcept
        : reactor_(reactor), most_(most), accepting_(reactor, 1) {}
    ~PendingPeers() { ROS2S_CHECK(present_.empty() && waiting_.empty()); }
    PendingPeers& operator=(PendingPeers&&) = delete;

    // A listener's. Outlives its pending peers.
    struct Share {
        size_t most = 0;
        size_t now = 0;
        uint64_t last_step = 0;
    };
    // Call it after each connection that was accepted: in a turn of the loop all listeners together
    // accept a few, in turn, so that a flood leaves time for other work.
    Task<> pace_accepts();
    // Without those that make room.
    [[nodiscard]] size_t size() const noexcept { return present_.size(); }

  private:
    friend class PendingPeer;
    using Address = std::tuple<const Share*, int64_t, std::string>;  // null: at all listeners
    using Counts = std::map<Address, size_t>;

    void make_room(const Share& at) noexcept;
    void next_step() noexcept;

    static constexpr uint64_t accepts_per_turn = 16;
    static constexpr int rest_per_step = 3;
    static constexpr uint32_t lines_per_second = 20;

    Reactor& reactor_;
    const size_t most_;
    std::list<PendingPeer*> present_;  // in the order of their arrival
    Counts counts_;
    std::list<PendingPeer*> waiting_;  // for their next step
    const PendingPeer* stepping_ = nullptr;
    uint64_t steps_ = 0;
    Semaphore accepting_;
    uint64_t accepted_ = 0;
    int64_t second_ = -1;  // of the lines counted so far
    uint32_t lines_ = 0;
    uint64_t left_out_ = 0;
};

// One of them, and its handshake. It counts until it was admitted, makes room, or is destroyed.
class PendingPeer {
  public:
    // It may make room at once: look at `stop`.
    PendingPeer(PendingPeers& all, PendingPeers::Share& at, Peer who);
    ~PendingPeer() { leave(); }
    PendingPeer& operator=(PendingPeer&&) = delete;
    // It was admitted.
    void leave() noexcept;

    // Around each step that takes processor time. Errors: cancelled; then there is no end_step().
    Task<Result<>> begin_step(StopToken until);
    Task<> end_step();

    // Before a line about it is written: the number of lines that were left out since the last one.
    // Empty: this one is left out, too.
    [[nodiscard]] std::optional<uint64_t> take_line() noexcept;

    Peer peer;
    StopSource stop;          // of its handshake
    bool makes_room = false;  // its handshake is being ended for another one

  private:
    friend class PendingPeers;
    [[nodiscard]] auto rank() const noexcept {
        return std::tuple(at_.now, here_->second, anywhere_->second);
    }

    PendingPeers& all_;
    PendingPeers::Share& at_;
    bool counts_ = true;
    PendingPeers::Counts::iterator here_, anywhere_;
    Event turn_;
    Time began_{};
};

}  // namespace ros2s::fabric
