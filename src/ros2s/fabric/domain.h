// Domain: one provider opened on one core for one tenant: the protection domain. Keys of one domain
// are worth nothing in another. It connects, listens, and counts.
//
// Made by a provider's own function (sim::Network::open_domain, shm::open_domain, ucx::open_domain)
// in whoever composes; all else sees only this interface. Owned by that composer, outlives its
// listeners and endpoints, is used on its reactor's core and destroyed there after close().
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "ros2s/fabric/endpoint.h"

namespace ros2s::fabric {

// Decides who gets an endpoint. A listener asks it as soon as it has read a peer's hello, and has
// done nothing for the peer until then: it shares no memory, and no library of a network has seen a
// byte or an address of the peer. Owned by whoever listens; outlives the listener.
class Admission {
  public:
    struct Verdict {
        bool admitted = false;
        std::vector<std::byte> said;  // to the peer, in either case; verdict_bytes_max of it
    };
    static constexpr size_t credential_bytes_max = 1024;
    static constexpr size_t verdict_bytes_max = 4096;

    virtual ~Admission() = default;
    // `session` is that of the endpoint that comes of it. Does not suspend.
    [[nodiscard]] virtual Verdict admit(uint64_t session, ConstBytes credential,
                                        const Peer& peer) = 0;
    // One that was admitted gets no endpoint after all: it went, or it could not be set up.
    virtual void withdraw(uint64_t session) noexcept = 0;
};

// Takes connections in. Handshakes run by themselves and are bounded in number and time. Where
// there are as many as there may be, the oldest makes room, of whoever has most of them: of the
// same user of this machine, or of the same address. So strangers keep each other out, and nobody
// else.
class Listener {
  public:
    virtual ~Listener() = default;
    // Where it listens, as connect() takes it; with the port that the kernel chose for port 0.
    [[nodiscard]] virtual const std::string& address() const noexcept = 0;
    // The next connection whose handshake is done. Errors: cancelled, closed.
    virtual Task<Result<std::unique_ptr<Endpoint>>> accept(StopToken stop = {}) = 0;
    // Refuses what was not accepted yet. Must be called.
    virtual Task<> close() = 0;
};

struct ListenOptions {
    Limits limits;
    Admission* admission = nullptr;  // null: everybody is admitted
    // Of those who are not admitted yet; and of those who are, until they are accepted.
    uint32_t handshakes_max = 64;
    // As long as connect() waits: a handshake that a busy machine draws out is not cut off.
    Duration handshake_within = std::chrono::seconds(5);
};

struct ConnectOptions {
    Limits limits;
    Duration within = std::chrono::seconds(5);
    StopToken stop{};
    // For the listener's Admission: credential_bytes_max at most.
    std::vector<std::byte> credential{};
    // Gets what that said, also where it refuses; stays empty where it was not asked.
    std::vector<std::byte>* verdict = nullptr;
};

class Domain {
  public:
    virtual ~Domain() = default;
    [[nodiscard]] virtual const std::string& provider() const noexcept = 0;
    [[nodiscard]] virtual uint64_t id() const noexcept = 0;
    [[nodiscard]] virtual Counters& counters() noexcept = 0;
    // That it can have at a time.
    [[nodiscard]] virtual size_t endpoints_max() const noexcept { return SIZE_MAX; }

    // Errors: busy (the address is in use), invalid (no such address), denied, io.
    virtual Task<Result<std::unique_ptr<Listener>>> listen(std::string address,
                                                           ListenOptions options,
                                                           Report& report) = 0;
    // Errors: disconnected (nobody listens there), unsupported (another provider or version there:
    // the report names both), deadline, cancelled, busy (the listener turns us away), denied (it
    // does not admit us), invalid.
    virtual Task<Result<std::unique_ptr<Endpoint>>> connect(std::string address,
                                                            ConnectOptions options,
                                                            Report& report) = 0;
    // After its listeners and endpoints are closed. Must be called.
    virtual Task<> close() = 0;
};

}  // namespace ros2s::fabric
