// Sockets: the established connections of one domain. Each turn of the loop reads an epoll
// descriptor once for all of them, so that idle connections cost nothing. When there is nothing to
// do for a while, the descriptor is polled by the reactor's Ring instead.
//
// Owned by the domain; used on its core.
#pragma once
#include <cstdint>
#include <vector>

#include "ros2s/fabric/packet/packet_endpoint.h"
#include "ros2s/fabric/socket/socket.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/ring.h"

namespace ros2s::fabric::tls {

class TlsWire;

class Sockets final : public Poller {
  public:
    // Errors: those of errno (no descriptors).
    [[nodiscard]] static Result<std::unique_ptr<Sockets>> open(Reactor& reactor);
    Sockets(const Sockets&) = delete;
    Sockets& operator=(const Sockets&) = delete;
    ~Sockets() override;
    // After its wires are closed.
    Task<> close();

    [[nodiscard]] Reactor& reactor() noexcept { return reactor_; }
    [[nodiscard]] Flusher& flusher() noexcept { return flusher_; }
    // From now on the wire is notified of what happens to its socket. Errors: those of errno.
    [[nodiscard]] Result<> add(TlsWire& wire, int fd) noexcept;
    void remove(TlsWire& wire, int fd) noexcept;
    // The next look calls the wire's turn().
    void queue(TlsWire& wire);

    bool poll() noexcept override;
    bool prepare_sleep() noexcept override;

  private:
    // Looks without result before the Ring polls, on a core that has other work.
    static constexpr uint32_t empty_looks_max = 1024;
    static constexpr int events_per_look = 64;

    Sockets(Reactor& reactor, Descriptor epoll, Descriptor signal);
    static Task<> watch(Sockets& self);
    bool look() noexcept;
    bool take_turns() noexcept;
    void arm() noexcept;

    Reactor& reactor_;
    Descriptor epoll_;
    Descriptor signal_;  // ends the Ring's poll
    Flusher flusher_;
    std::vector<TlsWire*> queued_;
    std::vector<TlsWire*> in_turn_;
    uint32_t empty_looks_ = 0;

    // The poll on the epoll descriptor; at most one is in the ring.
    Ring::Operation event_;
    bool armed_ = false;
    std::coroutine_handle<> watcher_{};
    bool stopping_ = false;
    bool closed_ = false;
    Nursery watching_;
};

}  // namespace ros2s::fabric::tls
