// Sessions and Regions: the session table by gRPC.
#pragma once
#include "control_server.h"
#include "served_call.h"
#include "session.grpc.pb.h"

namespace ros2s::control {

// What all services stand on. Used on the core, but for the gate's reactor.
struct Ground {
    CallGate& gate;
    ControlParts parts;
    const ControlOptions& options;
    bool draining = false;

    // The caller's session. Errors: stale.
    [[nodiscard]] Result<session::SessionUse> session(Served& served, uint64_t number) const;
};

class SessionService final : public v1::Sessions::CallbackService {
  public:
    explicit SessionService(Ground& ground) : ground_(ground) {}

  private:
    ROS2S_SERVE(Open, OpenSessionRequest, OpenSessionReply, open)
    ROS2S_SERVE(KeepAlive, KeepAliveRequest, KeepAliveReply, keep_alive)
    ROS2S_SERVE(IssueTicket, IssueTicketRequest, IssueTicketReply, issue_ticket)
    ROS2S_SERVE(Close, CloseSessionRequest, CloseSessionReply, close)

    struct Entered {
        session::SessionId id{};
        Result<> ticket;  // whether there was one to be had
    };
    Result<Entered> enter(Served& served, session::SessionRequest wanted,
                          const session::ServiceTerms& terms, v1::Ticket& ticket);
    // Where the session enters the data plane. Errors: stale, those of Doors::open().
    Task<Result<std::string>> door(session::SessionId id, const DataAddress& address,
                                   Report& report);
    Result<> give_ticket(Served& served, const session::Session& session, v1::Ticket& into);
    Result<const DataAddress*> choose(const v1::OpenSessionRequest& request, Report& report) const;

    Ground& ground_;
};

class RegionService final : public v1::Regions::CallbackService {
  public:
    explicit RegionService(Ground& ground) : ground_(ground) {}

  private:
    ROS2S_SERVE(Add, AddRegionRequest, AddRegionReply, add)
    ROS2S_SERVE(Remove, RemoveRegionRequest, RemoveRegionReply, remove)

    Ground& ground_;
};

}  // namespace ros2s::control
