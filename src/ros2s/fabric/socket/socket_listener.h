// SocketListener: a Listener over a listening socket. It accepts, reads hellos with their
// credentials, asks the Admission, and answers; what an admitted peer gets is its provider's to do
// (Handshakes::finish).
//
//     stranger ── hello, credential ──► asked ── verdict ──► guest ── finish() ──► ready ──
//     accept()
//
// Handshakes run side by side, bounded in number and time, strangers apart from guests: so who was
// admitted never makes room for who was not. A stranger costs a descriptor and a coroutine.
#pragma once
#include <deque>
#include <list>
#include <memory>
#include <string>

#include "ros2s/fabric/domain.h"
#include "ros2s/fabric/hello.h"
#include "ros2s/fabric/socket/socket.h"

namespace ros2s::fabric {

// A peer that was admitted, and knows it.
struct Admitted {
    Descriptor socket;
    Hello hello;
    Peer peer;
    uint64_t session = 0;
};

// What a provider does for its listeners. Outlives them.
class Handshakes {
  public:
    [[nodiscard]] virtual const std::string& provider() const noexcept = 0;
    // Sets up what the peer gets, and makes the endpoint. An error closes the socket; the peer has
    // been told if the provider told it.
    virtual Task<Result<std::unique_ptr<Endpoint>>> finish(Admitted peer, Limits limits,
                                                           StopToken stop) = 0;

  protected:
    ~Handshakes() = default;
};

// The same from the side that connects: says hello and shows the credential. Returns the answer of
// a listener that admits us. Errors: those of check_answer(), disconnected, cancelled.
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
    // A handshake under way.
    struct Greeting {
        Peer peer;
        StopSource stop;
        bool makes_room = false;  // for another one
    };
    using Greetings =
        std::list<Greeting*>;  // in the order of their coming, but those that make room

    static Task<> run(SocketListener& self);
    static Task<> greet(SocketListener& self, Descriptor socket, Peer peer);
    // A hello that is welcome so far. Errors: who sent it was told, or went.
    Task<Result<Hello>> hear(int fd, std::vector<std::byte>& credential, StopToken stop);
    // Errors: it was told that it is not admitted, or went.
    Task<Result<Admitted>> admit(Descriptor socket, Greeting& greeting, StopToken stop);
    void turn_away(int fd, Answer answer, ConstBytes verdict = {}) noexcept;
    // For this one. False where none of them is under way.
    static bool make_room(Greetings& among, const Peer& coming) noexcept;

    Reactor& reactor_;
    Counters& counters_;
    Handshakes& handshakes_;
    Descriptor socket_;
    std::string address_;
    ListenOptions options_;
    StopSource stop_;
    Event arrival_;
    std::deque<std::unique_ptr<Endpoint>> ready_;
    Greetings strangers_;
    Greetings guests_;
    Nursery greeting_;
    Nursery accepting_;
    bool closed_ = false;
};

}  // namespace ros2s::fabric
