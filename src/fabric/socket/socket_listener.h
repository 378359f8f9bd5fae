// SocketListener: a Listener over a listening socket. It accepts, reads hellos and answers those
// that are not welcome; what a welcome peer gets is its provider's to do (Handshakes::finish).
// Handshakes run side by side, bounded in number and time: where there are as many as there may be,
// the one that has taken longest makes room, so that who says nothing keeps nobody out.
#pragma once
#include <deque>
#include <list>
#include <memory>

#include "ros2s/fabric/domain.h"
#include "ros2s/fabric/hello.h"
#include "ros2s/fabric/socket/socket.h"

namespace ros2s::fabric {

// What a provider does for its listeners. Outlives them.
class Handshakes {
  public:
    [[nodiscard]] virtual const std::string& provider() const noexcept = 0;
    // Answers a peer whose hello was read (with what was appended to it) and makes the endpoint.
    // An error closes the socket; the peer has been told if the provider told it.
    virtual Task<Result<std::unique_ptr<Endpoint>>> finish(Descriptor socket, Hello hello,
                                                           std::vector<std::byte> appended,
                                                           Limits limits, StopToken stop) = 0;
    // The most that may be appended to a hello.
    [[nodiscard]] virtual uint32_t appended_bytes_max() const noexcept { return 0; }

  protected:
    ~Handshakes() = default;
};

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
        StopSource stop;
        bool makes_room = false;  // for another one
    };
    static Task<> run(SocketListener& self);
    static Task<> greet(SocketListener& self, Descriptor socket);
    Task<bool> greet_within(int fd, const Greeting& greeting, Hello& hello,
                            std::vector<std::byte>& appended, StopToken stop);
    void turn_away(int fd, Answer answer) noexcept;
    // False where none is under way: all of them are done and wait for accept().
    bool stop_longest() noexcept;

    Reactor& reactor_;
    Counters& counters_;
    Handshakes& handshakes_;
    Descriptor socket_;
    std::string address_;
    ListenOptions options_;
    StopSource stop_;
    Event arrival_;
    std::deque<std::unique_ptr<Endpoint>> ready_;
    std::list<Greeting*> under_way_;  // but those that make room; in the order of their coming
    Nursery greeting_;
    Nursery accepting_;
    bool closed_ = false;
};

}  // namespace ros2s::fabric
