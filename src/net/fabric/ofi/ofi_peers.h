// Peers: the endpoints of others by their addresses, as libfabric has them. libfabric keeps a
// connection for each. Several lanes may use one peer. A peer without lanes is kept for a while: if
// one side drops the connection while the other begins to use it again, data is lost.
//
// Owned by the worker; used on its core.
#pragma once
#include <rdma/fi_domain.h>

#include <string>
#include <unordered_map>

#include "ros2s/base/bytes.h"
#include "ros2s/base/result.h"

namespace ros2s::fabric::ofi {

struct Peer {
    fi_addr_t address = FI_ADDR_UNSPEC;
    size_t lanes = 0;
    uint64_t released = 0;  // when it lost its last lane: a sequence number
};

class Peers {
  public:
    // `own`: the address of our endpoint, for comparison.
    Peers(fid_av* known, ConstBytes own, size_t peers_max);
    // The peer at this address, with one more lane. Errors: unsupported (an address of another kind
    // than ours), no_memory (peers_max of them have lanes), io.
    [[nodiscard]] Result<Peer*> acquire(ConstBytes address);
    // Removes one lane. With `drop`, a peer without lanes is forgotten at once.
    void release(Peer& peer, bool drop) noexcept;

  private:
    static constexpr size_t idle_max = 64;
    using All = std::unordered_map<std::string, Peer>;
    void forget(All::iterator peer) noexcept;
    void forget_oldest() noexcept;

    fid_av* known_;
    const size_t peers_max_;
    std::string own_;
    All all_;
    size_t idle_ = 0;
    uint64_t releases_ = 0;
};

}  // namespace ros2s::fabric::ofi
