// Domain: one provider, opened on one core for one tenant: the protection domain. A key of one
// domain is not valid in another. It connects, listens, and counts.
//
// The composing code makes it with providers.h's open_domain() (simulations: with
// sim::Network::open_domain()) and owns it. All other code uses only this interface. It
// outlives its listeners and endpoints, is used on its reactor's core, and is destroyed there after
// close().
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "ros2s/fabric/endpoint.h"

namespace ros2s::fabric {

class PendingPeers;

// Decides which peers get an endpoint. A listener calls it as soon as it has read a peer's hello.
// Until then the listener shares no memory with the peer and passes no byte or address of the peer
// to a network library. Owned by the caller of listen(); outlives the listener.
class PeerCheck {
  public:
    struct Verdict {
        bool admitted = false;
        std::vector<std::byte> said;  // for the peer, in either case; at most verdict_bytes_max
        uint64_t tenant = 0;          // peers of one tenant share what the provider gives to peers
    };
    static constexpr size_t credential_bytes_max = 1024;
    static constexpr size_t verdict_bytes_max = 4096;

    virtual ~PeerCheck() = default;
    // `session` is the session of the later endpoint. Does not suspend.
    [[nodiscard]] virtual Verdict admit(uint64_t session, ConstBytes credential,
                                        const Peer& peer) = 0;
    // An admitted peer gets no endpoint: it has disconnected, or the set-up failed.
    virtual void withdraw(uint64_t session) noexcept = 0;
};

// Accepts connections. Handshakes run in the background and are bounded in number and time. If
// there are too many, the user of this machine or the address with the most handshakes loses its
// oldest one. A flood from one user or address therefore does not keep others out.
class Listener {
  public:
    virtual ~Listener() = default;
    // The address for connect(), with the port that the kernel chose for port 0.
    [[nodiscard]] virtual const std::string& address() const noexcept = 0;
    // The next connection whose handshake is done. Errors: cancelled, closed.
    virtual Task<Result<std::unique_ptr<Endpoint>>> accept(StopToken stop = {}) = 0;
    // Refuses connections that were not accepted yet. Must be called.
    virtual Task<> close() = 0;
};

struct ListenOptions {
    Limits limits;
    PeerCheck* peer_check = nullptr;  // null: all peers are admitted
    // One limit for the peers that are not admitted yet, and the same limit for admitted peers that
    // accept() has not returned yet.
    uint32_t handshakes_max = 64;
    // Equal to the limit of connect(), so that a handshake on a busy machine is not ended early.
    Duration handshake_within = std::chrono::seconds(5);
    // Shared with other listeners: what peers that are not admitted yet may cost together. Null:
    // not shared.
    PendingPeers* pending_peers = nullptr;
};

struct ConnectOptions {
    Limits limits;
    Duration within = std::chrono::seconds(5);
    StopToken stop{};
    // For the listener's PeerCheck; at most credential_bytes_max.
    std::vector<std::byte> credential{};
    // Gets the verdict, even if it refuses. Stays empty if the PeerCheck was not called.
    std::vector<std::byte>* verdict = nullptr;
};

class Domain {
  public:
    virtual ~Domain() = default;
    [[nodiscard]] virtual const std::string& provider() const noexcept = 0;
    [[nodiscard]] virtual uint64_t id() const noexcept = 0;
    [[nodiscard]] virtual Counters& counters() noexcept = 0;
    // The number of endpoints that can exist at a time.
    [[nodiscard]] virtual size_t endpoints_max() const noexcept { return SIZE_MAX; }

    // Errors: busy (the address is in use), invalid (no such address), denied, io.
    virtual Task<Result<std::unique_ptr<Listener>>> listen(std::string address,
                                                           ListenOptions options,
                                                           Report& report) = 0;
    // Errors: disconnected (no listener there), unsupported (another provider or version there: the
    // report names both), deadline, cancelled, busy (the listener has no room), denied (it does not
    // admit us), invalid.
    virtual Task<Result<std::unique_ptr<Endpoint>>> connect(std::string address,
                                                            ConnectOptions options,
                                                            Report& report) = 0;
    // After its listeners and endpoints are closed. Must be called.
    virtual Task<> close() = 0;
};

}  // namespace ros2s::fabric
