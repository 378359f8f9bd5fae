// Wire: what carries frames of packets: reliable, in order, of one connection. The one thing that a
// provider over packets has to implement besides its set-up (sim, lanes; later tls).
//
// Used on one core. A frame given to write() belongs to the wire until it comes back through
// WireUser::frame_sent(); the wire gives them back when it likes, and thereby sets the pace.
#pragma once
#include "ros2s/base/bytes.h"
#include "ros2s/fabric/counters.h"
#include "ros2s/fabric/packet/packet.h"
#include "ros2s/runtime/task.h"

namespace ros2s::fabric {

struct Frame {
    Frame* next = nullptr;
    uint32_t used = 0;
    std::byte bytes[frame_bytes];
    [[nodiscard]] ConstBytes content() const noexcept { return {bytes, used}; }
};

// Called by the wire, on its core, never from within write() or shut().
class WireUser {
  public:
    virtual void frame_sent(Frame& frame) noexcept = 0;
    // The bytes live during the call.
    virtual void frame_came(ConstBytes frame) noexcept = 0;
    // The last call but for frame_sent().
    virtual void broke(End how) noexcept = 0;

  protected:
    ~WireUser() = default;
};

class OneSided;

class Wire {
  public:
    virtual ~Wire() = default;
    // None: put and get are packets.
    [[nodiscard]] virtual OneSided* one_sided() noexcept { return nullptr; }
    // A frame that is written holds so much at most; half of one has room for a piece of a
    // transfer.
    [[nodiscard]] virtual size_t frame_bytes_max() const noexcept { return frame_bytes; }
    virtual void start(WireUser& user) noexcept = 0;
    virtual void write(Frame& frame) noexcept = 0;
    // For wires whose end may overtake what they carry: once goodbye is said, returns when the peer
    // has taken in everything and hung up in its turn, or when the wire is shut.
    virtual Task<> farewell() { co_return; }
    // Nothing goes out or comes in any more: no frame_came() or broke() after it.
    virtual void shut() noexcept = 0;
    // After shut(): returns when no frame is held any more and no call will come.
    virtual Task<> close() = 0;
};

}  // namespace ros2s::fabric
