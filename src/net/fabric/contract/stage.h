// Stage: what the attack tests of a provider share: on one core, a server with a bystander, whose
// session must not be affected. Each test adds a peer that does the handshake by hand.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ros2s/fabric/domain.h"
#include "ros2s/fabric/hello.h"
#include "ros2s/fabric/socket/socket.h"
#include "ros2s/runtime/test_support/made_reactor.h"

namespace ros2s::fabric::contract {

using OpenDomain = std::function<Result<std::unique_ptr<Domain>>(Reactor&, Report&)>;

class Stage {
  public:
    // `open` is called for the server's domain, then for the honest client's.
    Stage(OpenDomain open, ListenOptions listening, std::string address = "127.0.0.1:0",
          ConnectOptions connecting = {});
    Reactor& core() { return *reactor_; }
    const std::string& address() const { return listener->address(); }
    // Opens all below, runs the test, and closes it again.
    void run(const std::function<Task<>()>& test) { reactor_->run(perform(test)); }
    // The honest client sends a hundred requests and gets a hundred replies.
    Task<> bystander_is_served();
    // An honest client connects. It tries once more if the listener is busy.
    Task<> another_connects();

    std::unique_ptr<Domain> server;
    std::unique_ptr<Domain> honest;
    std::unique_ptr<Listener> listener;
    std::unique_ptr<Endpoint> bystander;         // the client's side
    std::unique_ptr<Endpoint> bystander_server;  // the server's

  private:
    Task<> perform(std::function<Task<>()> test);
    OpenDomain open_;
    ListenOptions listening_;
    std::string address_;
    ConnectOptions connecting_;
    std::unique_ptr<OsReactor> reactor_;
};

// The server's answer to a hello, and what it appended.
struct Welcome {
    Hello hello;
    std::vector<std::byte> greeting;
};
// A handshake by hand over `socket`, which it connects, with any bytes as the greeting. Empty: the
// server refused.
Task<std::optional<Welcome>> say_hello(Stage& stage, Descriptor& socket, std::string_view provider,
                                       uint64_t domain, std::vector<std::byte> greeting);

// A peer stops in the middle: it neither reads nor dies, and is killed later. It costs only its own
// session, within its budget. Forks, so call it before the provider's library is loaded.
void stuck_peer_costs_its_own_session(const OpenDomain& open);

}  // namespace ros2s::fabric::contract
