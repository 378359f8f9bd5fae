#include "gate.h"

#include <fmt/format.h>

namespace ros2s::session {

SessionGate::SessionGate(SessionTable& sessions, Purpose purpose)
    : sessions_(sessions), purpose_(purpose) {
    sessions_.watch(*this);
}
SessionGate::~SessionGate() { sessions_.unwatch(*this); }

Result<rpc::Guest> admit(SessionTable& sessions, ListenerScope scope, std::string_view of,
                         const rpc::HelloBody& hello, const fabric::Peer& peer) {
    TicketHolder whose;
    scope.subject = peer.subject;
    const auto enter = [&]() -> Result<rpc::Guest> {
        ROS2S_TRY_ASSIGN(const Ticket ticket, Ticket::parse(hello.ticket));
        ROS2S_TRY_ASSIGN(const SessionUse use,
                         sessions.attach(ticket, scope, hello.client, &whose));
        const bool is_same = use->connections == 1 || use->process == peer.process;
        use->process = is_same ? peer.process : -1;
        return rpc::Guest{.session = use->id.value,
                          .tenant = use->tenant,
                          .owner = use->owner,
                          .metrics = use->metrics};
    };
    if (const auto guest = enter()) return guest;
    sessions.refused(
        {.subject = whose.subject,
         .peer = peer.name,
         .session = whose.session.value,
         .action = AuditAction::connect,
         .object = AuditObject{},
         .decision = AuditDecision::refused,
         .reason = Error{.code = Code::denied},
         .text = fmt::format(
             "a connection to the data plane{}{} by {}{} was refused: its ticket is {}",
             of.empty() ? "" : " of ", of, peer.name,
             peer.subject.empty() ? "" : fmt::format(" ({})", peer.subject),
             whose.subject.empty()
                 ? "unknown, used or expired"
                 : whose.subject + "'s, for another client, certificate, tenant or purpose")},
        whose.tenant);
    return fail(Code::denied);
}

namespace {

// Of the guest's session, or else of the listener.
std::string_view subject_of(const Session* session, std::string_view of) {
    return session != nullptr ? std::string_view(session->audit_subject()) : of;
}

AuditEvent event_of(const Session* session, std::string_view of, const rpc::Guest& guest,
                    const fabric::Peer& peer, AuditAction action, const Error& error,
                    std::string_view text) {
    const bool is_known = session != nullptr;
    return {.subject = subject_of(session, of),
            .peer = peer.name,
            .session = guest.session,
            .action = action,
            .object = AuditObject{.pool = is_known ? session->request.pool : std::string_view()},
            .decision = AuditDecision::refused,
            .reason = error,
            .text = text,
            .shown_by = is_known ? session->shown_by() : std::string_view()};
}

}  // namespace

void say_misused(SessionTable& sessions, std::string_view of, const rpc::Guest& guest,
                 const fabric::Peer& peer) {
    const Session* const session = sessions.look({guest.session});
    const std::string_view name = of.empty() ? subject_of(session, of) : of;
    sessions.audit().say(event_of(
        session, of, guest, peer, AuditAction::memory, {.code = Code::denied},
        fmt::format("session {} of {} ({}) named memory of another session in a request: refused",
                    guest.session, name, peer.name)));
}

void say_turned_away(SessionTable& sessions, std::string_view of, const rpc::Guest& guest,
                     const fabric::Peer& peer, const Error& error, std::string_view why) {
    const Session* const session = sessions.look({guest.session});
    const std::string_view name = subject_of(session, of);
    sessions.audit().say(
        event_of(session, of, guest, peer, AuditAction::connect, error,
                 fmt::format("a connection to the data plane{}{} by {} was refused or ended: {}",
                             name.empty() ? "" : " of ", name, peer.name, why)));
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
