// Connection: a program's way into a server, engine or DPU: a session by the control plane, and a
// channel over the provider that both have, which takes a ticket for each of its connections.
//
//     ControlClient ─ session, tickets ─► fabric domain ─ rpc::Channel
//
// Owned by who composes a client on it; used on the reactor's core; close() before destruction.
// Fork rule: a forked child must not use it, nor destroy it.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "ros2s/control/session_tickets.h"
#include "ros2s/fabric/domain.h"
#include "ros2s/pki/certificate.h"
#include "ros2s/runtime/stack.h"

namespace ros2s::connection {

struct Options {
    control::ClientOptions control;
    control::SessionWish wish;  // its client is drawn by open()
    uint32_t service = 0;       // to speak to, of the data plane
    std::string ucx_device;     // of all but shm
    int32_t absence_errno = 0;  // rpc::ChannelOptions
};

class Connection {
  public:
    // A server that was there and is gone in the middle of it, to be restarted perhaps, is waited
    // for, 10 s at most; where none was, that is said at once. Errors, with a sentence: those of
    // control::ControlClient, not_found (no such pool), unsupported (no common provider; this
    // machine lacks it), those of rpc::Channel::open().
    [[nodiscard]] static Task<Result<std::unique_ptr<Connection>>> open(Reactor& reactor,
                                                                        Options options,
                                                                        Report& report);
    // Ends the session. What was made on the channel and the control client is gone before.
    Task<Result<>> close() { return stack_.close(); }

    [[nodiscard]] control::ControlClient& control() { return *control_; }
    [[nodiscard]] rpc::Channel& channel() { return *channel_; }
    // They know the session that there is now.
    [[nodiscard]] control::SessionTickets& tickets() { return *tickets_; }
    [[nodiscard]] const Uuid& client() const { return client_; }
    void visit_metrics(const MetricVisitor& visit) const { stack_.visit_metrics(visit); }
    [[nodiscard]] std::string layers() const { return stack_.names(); }

  private:
    Connection() = default;
    Task<Result<>> begin(Reactor& reactor, Options options, Report& report);

    Uuid client_;
    Stack stack_;
    control::ControlClient* control_ = nullptr;
    control::SessionTickets* tickets_ = nullptr;
    rpc::Channel* channel_ = nullptr;
};

}  // namespace ros2s::connection
