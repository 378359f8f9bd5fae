// Wire: carries frames of packets of one connection, reliably and in order. It is all that a
// provider over packets implements besides its set-up (sim, lanes, tls).
//
// Used on one core. A frame given to write() belongs to the wire until WireUser::frame_sent()
// returns it. The wire decides when, and so sets the pace.
#pragma once
#include "ros2s/base/bytes.h"
#include "ros2s/fabric/counters.h"
#include "ros2s/fabric/endpoint.h"
#include "ros2s/fabric/packet/packet.h"
#include "ros2s/runtime/task.h"

namespace ros2s::fabric {

inline constexpr size_t frame_head_bytes = 8;
struct Frame {
    Frame* next = nullptr;
    uint32_t used = 0;
    // For a wire that puts a header before the bytes, so that both are sent in one piece.
    std::byte head[frame_head_bytes];
    std::byte bytes[frame_bytes];
    [[nodiscard]] ConstBytes content() const noexcept { return {bytes, used}; }
};

// Called by the wire, on its core, never from within write() or shut().
class WireUser {
  public:
    virtual void frame_sent(Frame& frame) noexcept = 0;
    // The bytes are valid during the call.
    virtual void frame_came(ConstBytes frame) noexcept = 0;
    // The last call except frame_sent().
    virtual void broke(End how) noexcept = 0;

  protected:
    ~WireUser() = default;
};

class OneSided;

class Wire {
  public:
    virtual ~Wire() = default;
    // Null: put and get are packets.
    [[nodiscard]] virtual OneSided* one_sided() noexcept { return nullptr; }
    // The size limit of a frame that is written. Half of it has room for a piece of a transfer.
    [[nodiscard]] virtual size_t frame_bytes_max() const noexcept { return frame_bytes; }
    virtual void start(WireUser& user) noexcept = 0;
    virtual void write(Frame& frame) noexcept = 0;
    // For wires whose end may overtake the data on them. After goodbye was sent, returns when the
    // peer has received everything and has hung up too, or when the wire is shut.
    virtual Task<> farewell() { co_return; }
    // From now on nothing is sent or received: no frame_came() or broke() follows.
    virtual void shut() noexcept = 0;
    // After shut(): returns when the wire holds no frame and will make no call any more.
    virtual Task<> close() = 0;
};

// OneSided: puts and gets that a wire's adapter executes by itself. The granting side exposes
// memory under a key of the adapter. The initiating side names address and key, and the adapter
// checks each access. The caller checks first (PeerRegions), so the adapter refuses only if the
// peer announced false regions. Such a refusal ends the connection.
//
// Used on one core. Owned by its wire; not used after the wire's close().

// Memory in terms of the adapter.
struct Exposed {
    uint64_t address = 0;
    uint64_t key = 0;
};

class OneSided {
  public:
    // Exposes memory to the peer, with these rights. Errors: no_memory (also if it cannot be
    // locked), invalid (the adapter does not accept the memory; other memory may be used instead).
    [[nodiscard]] virtual Result<Exposed> expose(Bytes memory, Rights rights) = 0;
    // After the return no access by this key takes place.
    virtual void withdraw(uint64_t key) noexcept = 0;

    // Suspend. With PutReturns::ordered the bytes precede frames that the wire sends later. When
    // `revoked` becomes true, no operation begins, and those in progress are waited for. Errors:
    // stale (revoked), disconnected.
    virtual Task<Result<>> write(Exposed to, ConstBytes from, PutReturns returns,
                                 const bool& revoked) = 0;
    virtual Task<Result<>> read(Exposed from, Bytes into, const bool& revoked) = 0;
    // Ends operations in progress and later ones as disconnected, at once.
    virtual void stop() noexcept = 0;

  protected:
    ~OneSided() = default;
};

}  // namespace ros2s::fabric
