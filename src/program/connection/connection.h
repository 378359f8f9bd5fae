// Connection: a client's connection to an engine or a DPU. It has a session over the control plane
// and a channel over a provider that both sides have. The channel takes a ticket for each of its
// connections.
//
//     ControlClient ─ session, tickets ─► fabric domain ─ rpc::Channel
//
// Owned by the client that is composed on it; used on the reactor's core; close() before
// destruction. Fork rule: a forked child must not use it, nor destroy it.
#pragma once
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "ros2s/control/session_tickets.h"
#include "ros2s/fabric/domain.h"
#include "ros2s/pki/certificate.h"
#include "ros2s/runtime/stack.h"

namespace ros2s::connection {

// ServerAccess: a pool of a ros2store-engine or ros2store-dpu, and how a client reaches it.
struct ServerAccess {
    std::string control;        // "engine-1:7400", "unix:/run/ros2store/control.sock"
    std::string server_name{};  // in its certificate; empty: the host of `control`
    pki::Identity identity;
    std::string pool;
    std::string program{};                // for people
    std::vector<std::string> providers;   // best first: "shm", "ucx+tcp"
    std::string ucx_device = "lo";        // for the ucx and ofi providers
    std::chrono::seconds call_within{0};  // rpc::ChannelOptions
};

struct Options {
    ServerAccess server;
    session::Purpose purpose = session::Purpose::store;
    uint32_t service = 0;  // the number of the data plane's service
    // rpc::ChannelOptions
    uint16_t requests_max = rpc::ChannelOptions().requests_max;
    int32_t absence_errno = 0;
    const admission::Accounts* accounts = nullptr;
    const control::CapabilityHolder* holder = nullptr;  // control::SessionOptions
    Call opening{};                                     // bounds open()
};

class Connection {
  public:
    // Waits up to 10 s for a server that was lost while opening and may restart. If there was no
    // server at all, fails at once. Errors, with a sentence: those of
    // control::ControlClient, not_found (no such pool), unsupported (no common provider; this
    // machine lacks it), those of rpc::Channel::open().
    [[nodiscard]] static Task<Result<std::unique_ptr<Connection>>> open(Reactor& reactor,
                                                                        Options options,
                                                                        Report& report);
    // Ends the session. Users of the channel and the control client must be closed before.
    Task<Result<>> close() { return stack_.close(); }

    [[nodiscard]] control::SessionClient& control() { return *control_; }
    [[nodiscard]] rpc::Channel& channel() { return *channel_; }
    // The tickets have the current session.
    [[nodiscard]] control::SessionTickets& tickets() { return *tickets_; }
    [[nodiscard]] const Uuid& client() const { return client_; }
    void visit_metrics(const MetricVisitor& visit) const { stack_.visit_metrics(visit); }
    [[nodiscard]] std::string layers() const { return stack_.names(); }

  private:
    Connection() = default;
    Task<Result<>> begin(Reactor& reactor, Options options, Report& report);

    Uuid client_;
    Stack stack_;
    control::SessionClient* control_ = nullptr;
    control::SessionTickets* tickets_ = nullptr;
    rpc::Channel* channel_ = nullptr;
};

}  // namespace ros2s::connection
