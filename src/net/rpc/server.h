// Server: accepts connections over one domain. A Service answers their requests.
//
//     hello (ticket) ─ gate ─ welcome (credits) ─ connection ─ requests, each with one reply ─ end
//
// Owned by the code that composes it; domain, service and gate outlive it. Used on the domain's
// core. Fork rule: a forked child must not use it.
//
// Invariants
// - The hello is part of the fabric's hello. The gate admits it before the fabric sets up anything
//   (fabric::PeerCheck): a client without a ticket gets no memory and no connection.
// - A connection has at most ServerOptions::requests_max requests. One more ends the connection,
//   and so does an invalid frame. Other connections are not affected.
// - A request gets one reply. If its connection ends, a stop of the request is requested.
// - Requests begin in turn, by tenant and then by connection (ServerGroup). The Service gets no
//   request whose deadline has passed or whose reply could not be delivered.
// - The Service recognises repeated requests by their update name.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ros2s/fabric/domain.h"
#include "ros2s/rpc/options.h"
#include "ros2s/rpc/request.h"
#include "ros2s/rpc/rpc_metrics.h"
#include "ros2s/runtime/nursery.h"

namespace ros2s::rpc {

class ServerConnection;

class Server : private fabric::PeerCheck {
  public:
    // Listens at `address`. Errors: those of fabric::Domain::listen().
    static Task<Result<std::unique_ptr<Server>>> listen(Reactor& reactor, fabric::Domain& domain,
                                                        std::string address, Service& service,
                                                        Gate& gate, ServerOptions options,
                                                        Report& report);
    ~Server() override;
    Server& operator=(Server&&) = delete;

    // With the port that the kernel chose for port 0.
    [[nodiscard]] const std::string& address() const { return listener_->address(); }
    [[nodiscard]] const ServerMetrics& metrics() const { return metrics_; }
    [[nodiscard]] uint64_t incarnation() const { return incarnation_; }

    // Ends the connections of a guest's session at once. Their requests stop.
    void abandon_session(uint64_t session);
    // The same, and returns when their requests are done.
    Task<> end_session(uint64_t session);
    // Accepts nothing new, lets requests in progress end, ends all connections. Must be called.
    Task<> close();
    // Ends all connections at once, as if the process had died. Connections that come later end
    // before their first request. close() is still due.
    void abandon();

  private:
    friend class ServerConnection;
    Server(Reactor& reactor, fabric::Domain& domain, Service& service, Gate& gate,
           ServerOptions options);
    // A client that was admitted, and whose connection has not been accepted yet.
    struct Entrant {
        Guest guest;
        Quota::Share share{};  // of the connections
        std::unique_ptr<admission::Line> line;
        uint32_t number = 0;  // of its connection
        bool ended = false;   // its session has ended meanwhile
    };
    Verdict admit(uint64_t session, ConstBytes credential, const fabric::Peer& peer) override;
    void withdraw(uint64_t session) noexcept override;
    // Errors: those that the client gets; the report has the sentence.
    Result<Entrant> look_at(ConstBytes credential, const fabric::Peer& peer, Report& report);
    std::unexpected<Error> turn_away(const Guest& guest, const fabric::Peer& peer, Report& report,
                                     Error error, std::string why);
    static Task<> accept(Server& self);
    static Task<> serve_connection(Server& self, std::unique_ptr<fabric::Endpoint> endpoint,
                                   Entrant entrant);

    Reactor& reactor_;
    Service& service_;
    Gate& gate_;
    const ServerOptions options_;
    const uint64_t incarnation_;
    ServerMetrics metrics_;
    std::optional<ServerGroup> own_group_;
    ServerGroup& group_;
    PayloadPool memory_;
    std::unique_ptr<fabric::Listener> listener_;
    std::map<uint64_t, Entrant> entrants_;  // by the fabric's session
    std::vector<ServerConnection*> all_;
    Event left_;  // woken whenever a connection has ended
    StopSource closing_;
    bool closed_ = false;
    bool abandoned_ = false;
    Nursery accepting_;
    Nursery connections_;
};

}  // namespace ros2s::rpc
