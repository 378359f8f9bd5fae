// TlsWire: the frames of one session over its TLS connection. Frames are encrypted and sent at once
// as long as the socket takes them. The rest waits for it.
//
// The hang-up of the socket means that the peer is gone: within moments if the process died, within
// ten seconds if the machine did, within 30 s if it did while bytes were on their way to it. Bytes
// that arrived before the hang-up are received first.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "frame_reader.h"
#include "ros2s/fabric/packet/packet_endpoint.h"
#include "ros2s/fabric/packet/wire.h"
#include "ros2s/fabric/socket/socket.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/ring.h"
#include "secure_socket.h"
#include "tls_wire.h"

namespace ros2s::fabric::tls {

// Sockets: the established connections of one domain. Each turn of the loop reads an epoll
// descriptor once for all of them, so that idle connections cost nothing. When there is nothing to
// do for a while, the descriptor is polled by the reactor's Ring instead.
//
// Owned by the domain; used on its core.
class TlsWire;

class Sockets final : public Poller {
  public:
    // Errors: those of errno (no descriptors).
    [[nodiscard]] static Result<std::unique_ptr<Sockets>> open(Reactor& reactor);
    Sockets& operator=(Sockets&&) = delete;
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

class TlsWire final : public Wire {
  public:
    TlsWire(Sockets& sockets, Descriptor socket, std::unique_ptr<SecureSocket> secure);
    ~TlsWire() override;
    void start(WireUser& user) noexcept override;
    void write(Frame& frame) noexcept override;
    Task<> farewell() override;
    void shut() noexcept override;
    Task<> close() override;

    // Used by Sockets.
    bool queued = false;
    void happened(uint32_t events) noexcept;
    // Receives what is there, within a bound, and calls the user.
    void turn() noexcept;

  private:
    // Received in a turn, so that others have theirs.
    static constexpr size_t turn_bytes_max = size_t{256} << 10;
    // A read takes one TLS record. One with few bytes costs about as much as one with these.
    static constexpr size_t read_bytes_least = 1024;

    void queue() noexcept;
    void send_waiting() noexcept;
    void receive() noexcept;
    void give_back() noexcept;
    void failed(Progress progress) noexcept;
    struct Frames {
        Frame* first = nullptr;
        Frame* last = nullptr;
        void push(Frame& frame) noexcept;
        [[nodiscard]] Frame* pop() noexcept;
    };

    Sockets& sockets_;
    Descriptor socket_;
    std::unique_ptr<SecureSocket> secure_;
    WireUser* user_ = nullptr;

    Frames waiting_;
    size_t first_sent_ = 0;  // of the first one, with its length
    Frames sent_;
    bool output_blocked_ = false;

    FrameReader reader_;
    bool readable_ = false;
    bool input_needs_output_ = false;

    End failure_ = End::none;
    bool shut_ = false;
    Event shut_event_;
};

}  // namespace ros2s::fabric::tls
