// SessionTickets: gets tickets for a channel's connections from the control plane. If the server
// was restarted and has lost its sessions, it opens a new session.
//
// Owned by the composing code; the client outlives it. Used on the client's core.
#pragma once
#include <optional>
#include <string>

#include "ros2s/control/control_client.h"
#include "ros2s/rpc/channel.h"
#include "ros2s/runtime/sync.h"

namespace ros2s::control {

class SessionTickets final : public rpc::TicketSource {
  public:
    SessionTickets(Reactor& reactor, ControlClient& control, SessionWish wish);

    // Errors: those of ControlClient::open_session().
    Task<Result<OpenedSession>> open(Report& report);
    Task<Result<std::string>> take(Report& report) override;
    // Shows the holder's present chain in the session, if there is one. Errors: those of
    // ControlClient::show_capability().
    Task<Result<>> show(Report& report);
    [[nodiscard]] std::string address() const override { return address_; }
    // Ends the session, if the server can be reached.
    Task<> close();
    // The last session that was opened.
    [[nodiscard]] std::optional<session::SessionId> session() const { return session_; }
    // Woken whenever a session is opened.
    [[nodiscard]] Event& opened() { return opened_; }

  private:
    ControlClient& control_;
    SessionWish wish_;
    std::optional<session::SessionId> session_;
    std::string address_;  // of the data plane, for that session
    std::string provider_, nonce_;
    Event opened_;
    std::optional<session::Ticket> first_;  // came with the session, not used yet
};

}  // namespace ros2s::control
