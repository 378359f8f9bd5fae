// shm: the provider for peers on one machine, trusted or not: rings and payload in shared memory,
// and a Unix socket for set-up, wake-ups and the detection of a peer's death.
//
// Addresses are paths of Unix sockets (with a slash), or "@NAME". The kernel's credentials of the
// socket identify peers (Peer::process, user, group).
//
// An idle connection costs nothing. A core that polls looks at one word per connection and turn.
#pragma once
#include <cstdint>
#include <memory>

#include "ros2s/fabric/domain.h"

namespace ros2s::fabric::shm {

// Shared memory that several domains of a process give to their peers. Used on their core; outlives
// them.
struct SegmentsTogether {
    uint64_t bytes_max = 0;
    uint64_t bytes = 0;  // of connections that exist or are being set up
};

struct Options {
    // Shared memory of all connections that a listener of this domain accepts, without what each
    // has from the beginning (up to 2 MiB). Tenants and their users share it (base/quota.h).
    uint64_t segments_bytes_max = uint64_t{4} << 30;
    // Shared with other domains; null: not shared. A domain leaves at least as much of it free as
    // it uses, so that another domain always finds some.
    SegmentsTogether* together = nullptr;
    // A connection gives back further segments and pages that it has not used for this long.
    Duration idle_after = std::chrono::seconds(2);
};

// The reactor must have a Ring: an OsReactor.
[[nodiscard]] std::unique_ptr<Domain> open_domain(Reactor& reactor, Options options = {});

}  // namespace ros2s::fabric::shm
