// SocketListener: a Listener over a listening socket. It accepts, reads hellos with their
// credentials, calls the PeerCheck, and answers. The provider sets up the rest for an admitted peer
// (Handshakes::finish).
//
//     pending ── begin(), hello, credential ──► asked ── verdict ──► admitted ── finish() ──► ready
//     ── accept()
//
// Handshakes run side by side, bounded in number and time. Peers that are not admitted yet
// (PendingPeers) and admitted peers have separate bounds, so a peer that is not admitted yet never
// displaces an admitted peer. It costs a descriptor and a coroutine.
#pragma once
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <string>

#include "ros2s/fabric/domain.h"
#include "ros2s/fabric/hello.h"
#include "ros2s/fabric/pending_peers.h"
#include "ros2s/fabric/socket/socket.h"
#include "ros2s/fabric/socket/stream.h"

namespace ros2s::fabric {

// A peer that was admitted, and was notified.
struct Admitted {
    Descriptor socket;
    std::unique_ptr<Stream> stream;  // over the socket
    Hello hello;
    Peer peer;
    uint64_t session = 0;
    uint64_t tenant = 0;  // PeerCheck::Verdict
};

// The provider's part of its listeners. Outlives them.
class Handshakes {
  public:
    [[nodiscard]] virtual const std::string& provider() const noexcept = 0;
    // Returns the stream for the hellos of a peer that has just connected; by default the bare
    // socket. May exchange bytes with the peer, and fill in facts about it. An error closes the
    // socket.
    virtual Task<Result<std::unique_ptr<Stream>>> begin(Reactor& reactor, int fd,
                                                        PendingPeer& pending, StopToken stop);
    // Sets up the session and makes the endpoint. An error closes the socket; the peer has the
    // error only if the provider has sent it.
    virtual Task<Result<std::unique_ptr<Endpoint>>> finish(Admitted peer, Limits limits,
                                                           StopToken stop) = 0;

  protected:
    ~Handshakes() = default;
};

// The side that connects: sends its hello and credential. Returns the answer of a listener that
// admits us. Errors: those of check_answer(), disconnected, cancelled.
Task<Result<Hello>> ask_admission(Stream& stream, Hello hello, std::string address,
                                  const ConnectOptions& options, StopToken stop, Report& report);
// The same over the bare socket.
Task<Result<Hello>> ask_admission(Reactor& reactor, int fd, Hello hello, std::string address,
                                  const ConnectOptions& options, StopToken stop, Report& report);

class SocketListener final : public Listener {
  public:
    SocketListener(Reactor& reactor, Counters& counters, Handshakes& handshakes, Descriptor socket,
                   std::string address, ListenOptions options);
    ~SocketListener() override;
    const std::string& address() const noexcept override { return address_; }
    Task<Result<std::unique_ptr<Endpoint>>> accept(StopToken stop) override;
    Task<> close() override;

  private:
    using Greetings = std::list<PendingPeer*>;  // in the order of their arrival

    static Task<> run(SocketListener& self);
    static Task<> greet(SocketListener& self, Descriptor socket, Peer peer);
    // An acceptable hello. Errors: the sender was notified, or disconnected.
    Task<Result<Hello>> hear(Stream& stream, std::vector<std::byte>& credential, StopToken stop);
    // Errors: the peer was notified that it is not admitted, or it disconnected.
    Task<Result<Admitted>> admit(Descriptor socket, PendingPeer& pending, StopToken stop);
    void turn_away(Stream& stream, Answer answer, ConstBytes verdict = {}) noexcept;
    // Ends an admitted peer's handshake for this one's, which is also admitted.
    void make_room(const Peer& coming) noexcept;

    Reactor& reactor_;
    Counters& counters_;
    Handshakes& handshakes_;
    Descriptor socket_;
    std::string address_;
    ListenOptions options_;
    StopSource stop_;
    Event arrival_;
    std::deque<std::unique_ptr<Endpoint>> ready_;
    std::optional<PendingPeers> own_pending_peers_;
    PendingPeers& pending_peers_;
    PendingPeers::Share share_;
    Greetings pending_;
    Greetings admitted_;  // without those that make room
    Nursery greeting_;
    Nursery accepting_;
    bool closed_ = false;
};

// SocketDomain: the part of a Domain that is the same for all providers whose connections begin
// with a socket: addresses, listening, and how long a connection may take to be set up.
class SocketDomain : public Domain, private Handshakes {
  public:
    enum class Addresses { network, unix_socket };

    const std::string& provider() const noexcept final { return provider_; }
    uint64_t id() const noexcept final { return id_; }
    Counters& counters() noexcept final { return counters_; }
    Task<Result<std::unique_ptr<Listener>>> listen(std::string address, ListenOptions options,
                                                   Report& report) final;
    Task<Result<std::unique_ptr<Endpoint>>> connect(std::string address, ConnectOptions options,
                                                    Report& report) final;

  protected:
    SocketDomain(Reactor& reactor, std::string provider, Addresses addresses);
    // Connects, and sets up the session. Errors: those of connect(), or cancelled.
    virtual Task<Result<std::unique_ptr<Endpoint>>> handshake(std::string address,
                                                              const ConnectOptions& options,
                                                              StopToken stop, Report& report) = 0;

    Reactor& reactor_;
    const uint64_t id_;
    Counters counters_;

  private:
    [[nodiscard]] Result<> check_address(const std::string& address, Report& report) const;

    const std::string provider_;
    const Addresses addresses_;
};

}  // namespace ros2s::fabric
