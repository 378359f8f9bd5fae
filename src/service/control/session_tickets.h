// SessionTickets: gets tickets for a channel's connections from the control plane. If the server
// was restarted and has lost its sessions, it opens a new session.
//
// Owned by the composing code; the client outlives it. Used on the client's core.
#pragma once
#include <algorithm>
#include <optional>
#include <string>

#include "ros2s/control/control_client.h"
#include "ros2s/rpc/channel.h"
#include "ros2s/runtime/sync.h"

namespace ros2s::control {

class SessionTickets final : public rpc::TicketSource {
  public:
    SessionTickets(Reactor& reactor, SessionClient& control, SessionOptions wanted);

    // Each call below has this time at most.
    static constexpr Duration answer_max = std::chrono::seconds(10);
    // As the caller's, and of at most this time.
    [[nodiscard]] Call bounded(const Call& caller = {}) const {
        return {.deadline = std::min(caller.deadline, reactor_.now() + answer_max),
                .stop = caller.stop};
    }

    // Errors: those of SessionClient::open_session().
    Task<Result<OpenedSession>> open(const Call& caller, Report& report);
    Task<Result<std::string>> take(Report& report) override;
    // Shows the holder's present chain in the session, if there is one. Errors: those of
    // SessionClient::show_capability().
    Task<Result<>> show(Report& report);
    [[nodiscard]] std::string address() const override { return address_; }
    // Ends the session, if the server can be reached.
    Task<> close();
    // The last session that was opened.
    [[nodiscard]] std::optional<session::SessionId> session() const { return session_; }
    // The last attempt to open one was denied: the server runs, and this client has no right there.
    [[nodiscard]] bool is_refused() const { return is_refused_; }
    // Woken whenever a session is opened.
    [[nodiscard]] Event& opened() { return opened_; }

  private:
    Task<Result<>> show_within(const Call& call, Report& report);

    Reactor& reactor_;
    SessionClient& control_;
    SessionOptions options_;
    std::optional<session::SessionId> session_;
    bool is_refused_ = false;
    std::string address_;  // of the data plane, for that session
    std::string provider_, nonce_;
    Event opened_;
    Semaphore showing_;                     // a nonce is for one showing
    std::optional<session::Ticket> first_;  // came with the session, not used yet
};

}  // namespace ros2s::control
