// SessionTickets: tickets for a channel's connections, from the control plane. A server that was
// restarted knows no sessions any more: then another one is opened.
//
// Owned by who composes; the client outlives it. Used on the client's core.
#pragma once
#include <optional>
#include <string>

#include "ros2s/control/control_client.h"
#include "ros2s/rpc/channel.h"
#include "ros2s/runtime/sync.h"

namespace ros2s::control {

class SessionTickets final : public rpc::TicketSource {
  public:
    SessionTickets(ControlClient& control, SessionWish wish);

    // Errors: those of ControlClient::open_session().
    Task<Result<OpenedSession>> open(Report& report);
    Task<Result<std::string>> take(Report& report) override;
    [[nodiscard]] std::string address() const override { return address_; }
    // Ends the session, if the server can be reached.
    Task<> close();
    // The last one that was opened.
    [[nodiscard]] std::optional<session::SessionId> session() const { return session_; }
    // Woken whenever one was opened.
    [[nodiscard]] Event& opened() { return opened_; }

  private:
    ControlClient& control_;
    SessionWish wish_;
    std::optional<session::SessionId> session_;
    std::string address_;  // of the data plane, for that session
    Event opened_;
    std::optional<session::Ticket> first_;  // came with the session, unused
};

}  // namespace ros2s::control
