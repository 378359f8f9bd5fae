// OneSided: puts and gets that a wire's adapter does by itself: the side that grants exposes memory
// under a key of the adapter, which checks each access to it; the other names both. What lies above
// asks first (Lent), so that the adapter refuses only a peer that lied: such a refusal breaks the
// connection.
//
// Used on one core. Its wire's; not after the wire's close().
#pragma once
#include "ros2s/fabric/endpoint.h"

namespace ros2s::fabric {

// Memory as the adapter counts.
struct Exposed {
    uint64_t address = 0;
    uint64_t key = 0;
};

class OneSided {
  public:
    // For the peer, with these rights. Errors: no_memory (it cannot be locked, too), invalid
    // (memory that the adapter does not take: who grants may use other memory in its place).
    [[nodiscard]] virtual Result<Exposed> expose(Bytes memory, Rights rights) = 0;
    // When it returns nobody touches the memory by this key.
    virtual void withdraw(uint64_t key) noexcept = 0;

    // Suspend. With Placement::ordered the bytes precede what the wire is given from then on. When
    // `revoked` becomes true nothing new begins, and what the adapter has is waited for. Errors:
    // stale (revoked), disconnected.
    virtual Task<Result<>> write(Exposed to, ConstBytes from, Placement placement,
                                 const bool& revoked) = 0;
    virtual Task<Result<>> read(Exposed from, Bytes into, const bool& revoked) = 0;
    // All that is under way ends as disconnected, now; so does what comes later.
    virtual void stop() noexcept = 0;

  protected:
    ~OneSided() = default;
};

}  // namespace ros2s::fabric
