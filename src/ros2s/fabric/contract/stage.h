// Stage: what attack tests of a provider share: a server with a bystander whose session must not
// notice anything, on one core. A peer that does the handshake by hand comes besides.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "ros2s/fabric/domain.h"
#include "ros2s/runtime/os_reactor.h"

namespace ros2s::fabric::contract {

using OpenDomain = std::function<Result<std::unique_ptr<Domain>>(Reactor&, Report&)>;

class Stage {
  public:
    Stage(OpenDomain open, ListenOptions listening);
    Reactor& core() { return *reactor_; }
    const std::string& address() const { return listener->address(); }
    // Runs the test between the opening and the closing of all below.
    void run(const std::function<Task<>()>& test) { reactor_->run(perform(test)); }
    // The honest client asks and is answered, a hundred times.
    Task<> bystander_is_served();
    // An honest client connects, once more when it is told that the listener is busy.
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
    std::unique_ptr<OsReactor> reactor_;
};

[[nodiscard]] std::unique_ptr<OsReactor> make_reactor();

// A peer that stops in the middle, neither reading nor dying, and is killed later: it costs its own
// session, within its budget. Forks: to be called before the provider's library is loaded.
void stuck_peer_costs_its_own_session(const OpenDomain& open);

}  // namespace ros2s::fabric::contract
