// OneSided: puts and gets that a wire's adapter executes by itself. The granting side exposes
// memory under a key of the adapter. The initiating side names address and key, and the adapter
// checks each access. The caller checks first (PeerRegions), so the adapter refuses only if the
// peer announced false regions. Such a refusal ends the connection.
//
// Used on one core. Owned by its wire; not used after the wire's close().
#pragma once
#include "ros2s/fabric/endpoint.h"

namespace ros2s::fabric {

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
