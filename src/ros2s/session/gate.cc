#include "gate.h"

#include <fmt/format.h>

#include "ros2s/base/log_fields.h"

namespace ros2s::session {

SessionGate::SessionGate(SessionTable& sessions, Purpose purpose)
    : sessions_(sessions), purpose_(purpose) {
    sessions_.watch(*this);
}
SessionGate::~SessionGate() { sessions_.unwatch(*this); }

Result<rpc::Guest> admit(SessionTable& sessions, ListenerScope scope, std::string_view of,
                         const rpc::HelloBody& hello, const fabric::Peer& peer) {
    TicketGrant whose;
    scope.subject = peer.subject;
    const auto enter = [&]() -> Result<rpc::Guest> {
        ROS2S_TRY_ASSIGN(const Ticket ticket, Ticket::parse(hello.ticket));
        ROS2S_TRY_ASSIGN(const SessionUse use,
                         sessions.attach(ticket, scope, hello.client, &whose));
        const auto& shows = use->shows;
        return rpc::Guest{
            .session = use->id.value,
            .tenant = use->tenant,
            .owner = use->owner,
            .has_rates = !shows || !shows->capability || shows->capability->depth == 1};
    };
    if (const auto guest = enter()) return guest;
    sessions.refused(
        whose.subject,
        fmt::format("a connection to the data plane{}{} by {} was refused: its ticket is {}",
                    of.empty() ? "" : " of ", of, peer.name,
                    whose.subject.empty()
                        ? "unknown, used or expired"
                        : whose.subject + "'s, for another client, certificate, tenant or purpose"),
        log_fields({{"tenant", whose.subject}, {"peer", peer.name}, {"shown", peer.subject}}));
    return fail(Code::denied);
}

Result<rpc::Guest> SessionGate::admit(const rpc::HelloBody& hello, const fabric::Peer& peer) {
    return session::admit(sessions_, {.purpose = purpose_}, {}, hello, peer);
}

void SessionGate::left(const rpc::Guest& guest) { sessions_.detach({guest.session}); }

void SessionGate::session_revoked(Session& session) {
    for (rpc::Server* const server : servers_) server->abandon_session(session.id.value);
}

Task<> SessionGate::session_ending(Session& session) {
    // By index: servers may be added or removed meanwhile.
    for (size_t i = 0; i < servers_.size(); ++i) {
        co_await servers_[i]->end_session(session.id.value);
    }
}

}  // namespace ros2s::session
