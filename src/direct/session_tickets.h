// SessionTickets: tickets for a channel's connections, from the control plane. An engine that was
// restarted knows no sessions any more: then another one is opened.
#pragma once
#include <optional>
#include <string>

#include "ros2s/control/control_client.h"
#include "ros2s/rpc/channel.h"

namespace ros2s::direct {

class SessionTickets final : public rpc::TicketSource {
  public:
    SessionTickets(control::ControlClient& control, control::SessionWish wish)
        : control_(control), wish_(std::move(wish)) {}

    // Errors: those of ControlClient::open_session().
    Task<Result<control::OpenedSession>> open(Report& report);
    Task<Result<std::string>> take(Report& report) override;
    Task<> close();

  private:
    control::ControlClient& control_;
    control::SessionWish wish_;
    std::optional<session::SessionId> session_;
    std::optional<session::Ticket> first_;  // came with the session, unused
};

}  // namespace ros2s::direct
