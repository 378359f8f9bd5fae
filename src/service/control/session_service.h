// Sessions: the session table over gRPC.
#pragma once
#include "control_server.h"
#include "ros2s/control/session.pb.h"
#include "ros2s/rights/decide.h"
#include "served_call.h"

namespace ros2s::control {

// The state that all services use. Used on the core, except the gate's reactor.
struct ServerState {
    ServerCalls& gate;
    ControlParts parts;
    const ControlOptions& options;
    bool draining = false;
    std::map<uint64_t, admission::Line> name_lines{};  // by tenant (name_turn.h)

    // The caller's session. Errors: stale.
    [[nodiscard]] Result<session::SessionUse> session(Served& served, uint64_t number) const;
    // Waits until this server may act on the rights that it has for the pool, or in the pool of the
    // session. Errors: those of rights::Feed::wait().
    Task<Result<>> wait_for_rights(Served& served, std::string pool) const;
    Task<Result<>> wait_for_rights(Served& served, session::SessionId number) const;
    [[nodiscard]] const rights::Policy& policy() const { return parts.sessions.rights().policy(); }
    [[nodiscard]] rights::Decision decide(const Served& served, const rights::Container& container,
                                          rights::Wanted what) const;
    // Checks that the caller has that right, or any right in the pool. Without one it receives
    // nothing, not even whether the object exists; only that its own tenant has no rights any more.
    // Errors: denied, with an audit line.
    [[nodiscard]] Result<> permit(Served& served, rights::Right right,
                                  const rights::Container& container) const;
    [[nodiscard]] Result<> permit(Served& served, const std::string& pool) const;
    // After a decision against the right.
    std::unexpected<Error> refuse(Served& served, const rights::Decision& decision,
                                  rights::Right right, const rights::Container& container) const;
    [[nodiscard]] bool is_administrator(const Served& served) const;
    // Checks that the caller is an administrator. `here` is what it wants in the pool ("change
    // tenants of"), `what` the same without the pool. Errors: denied, with an audit line.
    [[nodiscard]] Result<> permit_administration(Served& served, std::string_view here,
                                                 const std::string& pool,
                                                 std::string_view what) const;
    // The pools in which the caller has a right.
    [[nodiscard]] std::vector<std::string> pools_for(const Served& served) const;
    // An audit line: what the caller did with the object.
    void audit(const Served& served, AuditAction action, const AuditObject& object,
               std::string_view what) const;
    // The same for a call that was refused (ServerCalls::refused).
    void refused(const Served& served, std::string_view method, const Error& error) const;
};

class SessionService final : public OfferedService {
  public:
    explicit SessionService(ServerState& state) : OfferedService(state.gate), state_(state) {}

  private:
    ROS2S_SERVE(OpenSessionRequest, OpenSessionReply, open)
    ROS2S_SERVE(KeepAliveRequest, KeepAliveReply, keep_alive)
    ROS2S_SERVE(IssueTicketRequest, IssueTicketReply, issue_ticket)
    ROS2S_SERVE(ShowCapabilityRequest, ShowCapabilityReply, show_capability)
    ROS2S_SERVE(CloseSessionRequest, CloseSessionReply, close)

    struct Entered {
        session::SessionId id{};
        Result<> ticket;  // whether a ticket was available
    };
    // With a ticket, unless the session shows a capability: then with a nonce.
    Result<Entered> enter(Served& served, session::SessionRequest wanted,
                          const std::string& shows_over, v1::OpenSessionReply& reply);
    [[nodiscard]] std::string draw_nonce() const;
    // The address of the data plane for the session. Errors: stale, those of
    // TenantListeners::open().
    Task<Result<std::string>> address_for(session::SessionId id, const DataAddress& address,
                                          Report& report);
    Result<> give_ticket(Served& served, const session::Session& session, v1::Ticket& into);
    Result<const DataAddress*> choose(const v1::OpenSessionRequest& request, Report& report) const;

    ServerState& state_;
};

}  // namespace ros2s::control
