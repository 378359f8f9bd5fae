#include "gate.h"

namespace ros2s::session {

SessionGate::SessionGate(SessionTable& sessions, Purpose purpose)
    : sessions_(sessions), purpose_(purpose) {
    sessions_.watch(*this);
}
SessionGate::~SessionGate() { sessions_.unwatch(*this); }

Result<rpc::Guest> SessionGate::admit(const rpc::HelloBody& hello, const fabric::Peer& /*peer*/) {
    const auto ticket = Ticket::parse(hello.ticket);
    if (!ticket) return fail(Code::denied);
    ROS2S_TRY_ASSIGN(const SessionUse use, sessions_.attach(*ticket, purpose_, hello.client));
    return rpc::Guest{.session = use->id.value, .tenant = use->tenant};
}

void SessionGate::left(const rpc::Guest& guest) { sessions_.detach({guest.session}); }

Task<> SessionGate::session_ending(Session& session) {
    // By index: a server may come or go meanwhile.
    for (size_t i = 0; i < servers_.size(); ++i) {
        co_await servers_[i]->end_session(session.id.value);
    }
}

}  // namespace ros2s::session
