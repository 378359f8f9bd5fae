// Sessions: the session table by gRPC.
#pragma once
#include "control_server.h"
#include "served_call.h"
#include "session.grpc.pb.h"

namespace ros2s::control {

// What all services stand on. Used on the core, but for the gate's reactor.
struct ServerState {
    CallGate& gate;
    ControlParts parts;
    const ControlOptions& options;
    bool draining = false;

    // The caller's session. Errors: stale.
    [[nodiscard]] Result<session::SessionUse> session(Served& served, uint64_t number) const;
    // Whether the caller has that right, or any in the pool. What it has none for it learns nothing
    // of, not even whether it is there. Errors: denied, with an audit line.
    [[nodiscard]] Result<> permit(Served& served, session::Right right, const std::string& pool,
                                  const std::string& container) const;
    [[nodiscard]] Result<> permit(Served& served, const std::string& pool) const;
    // The pools that the caller may know of.
    [[nodiscard]] std::vector<std::string> pools_for(const Served& served) const;
    // An audit line: the caller did that.
    void audit(const Served& served, std::string_view what) const;
};

class SessionService final : public OfferedService {
  public:
    explicit SessionService(ServerState& state)
        : OfferedService(state.gate, v1::Sessions::service_full_name()), state_(state) {}

  private:
    ROS2S_SERVE(Open, OpenSessionRequest, OpenSessionReply, open)
    ROS2S_SERVE(KeepAlive, KeepAliveRequest, KeepAliveReply, keep_alive)
    ROS2S_SERVE(IssueTicket, IssueTicketRequest, IssueTicketReply, issue_ticket)
    ROS2S_SERVE(Close, CloseSessionRequest, CloseSessionReply, close)

    struct Entered {
        session::SessionId id{};
        Result<> ticket;  // whether there was one to be had
    };
    Result<Entered> enter(Served& served, session::SessionRequest wanted, v1::Ticket& ticket);
    // Where the session enters the data plane. Errors: stale, those of TenantListeners::open().
    Task<Result<std::string>> address_for(session::SessionId id, const DataAddress& address,
                                          Report& report);
    Result<> give_ticket(Served& served, const session::Session& session, v1::Ticket& into);
    Result<const DataAddress*> choose(const v1::OpenSessionRequest& request, Report& report) const;

    ServerState& state_;
};

}  // namespace ros2s::control
