// shm: the provider for peers on one machine, trusted or not: rings and payload in shared memory, a
// Unix socket for set-up, wake-ups and the peer's death.
//
// Addresses are paths of Unix sockets (with a slash), or "@NAME". Peers are told by the kernel's
// credentials of the socket (Peer::process, user, group).
//
// Cost when idle: none. A core that polls looks at one word per connection and turn.
#pragma once
#include <memory>

#include "ros2s/fabric/domain.h"

namespace ros2s::fabric::shm {

struct Options {
    // Shared memory of all connections that a listener of this domain accepts, control segments
    // included; a peer over that is turned away.
    uint64_t segments_bytes_max = uint64_t{4} << 30;
};

// The reactor must have a Ring: an OsReactor.
[[nodiscard]] std::unique_ptr<Domain> open_domain(Reactor& reactor, Options options = {});

}  // namespace ros2s::fabric::shm
