// Domain: one provider opened on one core for one tenant: the protection domain. Keys of one domain
// are worth nothing in another. It connects, listens, and counts.
//
// Made by a provider's own function (sim::Network::open_domain, shm::open_domain, ucx::open_domain)
// in whoever composes; all else sees only this interface. Owned by that composer, outlives its
// listeners and endpoints, is used on its reactor's core and destroyed there after close().
#pragma once
#include <memory>
#include <string>

#include "ros2s/fabric/endpoint.h"

namespace ros2s::fabric {

// Takes connections in. Handshakes run by themselves and are bounded in number and time, so that
// peers that connect and say nothing, or speak another protocol, cost a slot for a while.
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
    uint32_t handshakes_max = 64;  // under way or done and not accepted; the longest makes room
    // As long as connect() waits: a handshake that a busy machine draws out is not cut off.
    Duration handshake_within = std::chrono::seconds(5);
};

struct ConnectOptions {
    Limits limits;
    Duration within = std::chrono::seconds(5);
    StopToken stop{};
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
    // the report names both), deadline, cancelled, busy (the listener turns us away), invalid.
    virtual Task<Result<std::unique_ptr<Endpoint>>> connect(std::string address,
                                                            ConnectOptions options,
                                                            Report& report) = 0;
    // After its listeners and endpoints are closed. Must be called.
    virtual Task<> close() = 0;
};

}  // namespace ros2s::fabric
