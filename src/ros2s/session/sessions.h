// SessionTable: who is connected. A session is one authenticated association of a client with this
// server: opened over the control plane by a certificate's subject, entered by data-plane
// connections with tickets, ended by the client, by an operator, when its certificate is good no
// more, or by itself when nobody used it for a while and no connection is attached: soon where it
// had one, whose end is mostly its client's.
//
// Until there is tenancy, the tenant is the certificate's subject: sessions of one subject share a
// tenant number.
//
//     open ──► live ──► ending ──► gone
//               │ ▲       tickets revoked, calls drained, watchers done
//        attach ▼ │ detach
//             connections
//
// Owned by the program; outlives both planes. Thread rule: used on one core.
//
// Invariants
// - A session is found by its own subject alone; to others it does not exist.
// - Numbers of sessions begin anywhere: a client of an earlier process does not meet
//   another's session under its old number.
// - A Session stays where it is while a SessionUse holds it; ending waits for that.
// - Bounded: sessions in all and per subject, tickets per session and subject.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ros2s/base/log.h"
#include "ros2s/base/metrics.h"
#include "ros2s/base/result.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/reactor.h"
#include "ros2s/runtime/sync.h"
#include "ros2s/session/audit_lines.h"
#include "ros2s/session/tickets.h"

namespace ros2s::session {

struct SessionRequest {
    std::string subject;
    Uuid client;  // the opened library
    Purpose purpose = Purpose::store;
    std::string pool;
    std::string program;  // for people: "fio 3.33, process 4711"
    std::string from{};  // where the control plane was called from: "ipv4:192.0.2.7:51234", "unix:"
};

// By which its subject was let in.
struct Credential {
    std::string chain;  // of certificates, as PEM
    WallTime until = WallTime::max();
};

// Under whose name a subject's clients go (UpdateName::owner): the same in every process.
[[nodiscard]] Uuid owner_of(std::string_view subject);

class Session {
  public:
    Session(Reactor& reactor, SessionId number, uint64_t tenant_number, SessionRequest what)
        : id(number),
          tenant(tenant_number),
          request(std::move(what)),
          owner(owner_of(request.subject)),
          idle(reactor) {}

    const SessionId id;
    const uint64_t tenant;
    const SessionRequest request;
    const Uuid owner;          // of the client's names, whatever it calls itself
    Credential credential;     // the one that its subject showed last
    uint32_t connections = 0;  // of the data plane
    Time last_use{};
    bool deserted = false;  // it had connections, and all have ended
    bool ending = false;

  private:
    friend class SessionUse;
    friend class SessionTable;
    uint32_t in_use_ = 0;
    Event idle;  // woken when in_use_ falls to 0
};

// For log lines about it.
[[nodiscard]] std::string fields_of(const Session& session);

// A call that works with a session.
class [[nodiscard]] SessionUse {
  public:
    explicit SessionUse(Session& session) : session_(&session) { ++session_->in_use_; }
    SessionUse(SessionUse&& other) noexcept : session_(std::exchange(other.session_, nullptr)) {}
    SessionUse(const SessionUse&) = delete;
    SessionUse& operator=(const SessionUse&) = delete;
    SessionUse& operator=(SessionUse&&) = delete;
    ~SessionUse() {
        if (session_ != nullptr && --session_->in_use_ == 0) session_->idle.wake_all();
    }
    Session* operator->() const { return session_; }
    Session& operator*() const { return *session_; }

  private:
    Session* session_;
};

// Somebody who keeps things for sessions and lets them go when one ends: open files, connections.
class SessionWatcher {
  public:
    virtual ~SessionWatcher() = default;
    // The session takes no new calls and no connections any more, and its tickets are revoked.
    virtual Task<> session_ending(Session& session) = 0;
};

struct SessionMetrics {
    Counter live, opened, ended, reaped, refused;
    Counter foreign;  // sessions, mounts and handles that were another's than who asked for them
    void visit(const MetricVisitor& visit) const;
};

class SessionTable {
  public:
    struct Options {
        uint32_t sessions_max = 4096;
        uint32_t per_subject_max = 256;
        // Without a connection and a call for this long a session ends.
        Duration idle_max = std::chrono::seconds(60);
        // The same of one whose connections have all ended: a client that lives connects again
        // within a second or two, and each attempt is a call.
        Duration deserted_max = std::chrono::seconds(5);
    };
    SessionTable(Reactor& reactor, TicketTable& tickets, Options options, Log log = {});
    ~SessionTable();  // after close_all()
    SessionTable(const SessionTable&) = delete;
    SessionTable& operator=(const SessionTable&) = delete;

    // Errors: busy (the subject has too many), no_memory (the table is full), closed (draining).
    [[nodiscard]] Result<SessionUse> open(SessionRequest request);
    // Errors: stale (none of this subject with that number). `from`: where the subject asks from,
    // for the audit line about whose session it is instead.
    [[nodiscard]] Result<SessionUse> find(SessionId id, std::string_view subject,
                                          std::string_view from = {});
    // Errors: those of TicketTable::issue().
    [[nodiscard]] Result<IssuedTicket> issue_ticket(const Session& session);

    // For the data plane: redeems, and counts the connection until detach(). Errors: denied.
    [[nodiscard]] Result<SessionUse> attach(const Ticket& ticket, ListenerScope scope,
                                            const Uuid& client, TicketGrant* whose = nullptr);
    [[nodiscard]] Result<SessionUse> attach(const Ticket& ticket, Purpose purpose,
                                            const Uuid& client) {
        return attach(ticket, ListenerScope{.purpose = purpose}, client);
    }
    void detach(SessionId id);
    // For a call that came over a connection which attach() let in. Errors: stale.
    [[nodiscard]] Result<SessionUse> use(SessionId id);

    // Also one that is ending; null: it is gone. Valid until something is awaited.
    [[nodiscard]] const Session* look(SessionId id) const;

    // Ends it and returns when all that was kept for it is gone; waits also where another call has
    // begun to. Nothing where there is no such session.
    Task<> close(SessionId id);
    // Ends it in the background, for a reason that an audit line says. Nothing where there is none.
    void expel(SessionId id, std::string_view why);
    // Refuses new sessions and ends all.
    Task<> close_all();
    // Ends what nobody uses, and whose certificate has expired, until it is stopped. Run by whoever
    // serves the control plane.
    Task<> reap(StopToken stop);

    // Watchers are told in the order of their coming; they leave before they die.
    void watch(SessionWatcher& watcher) { watchers_.push_back(&watcher); }
    void unwatch(SessionWatcher& watcher) { std::erase(watchers_, &watcher); }

    // Somebody reached for what is another's; counted, and said.
    void foreign(std::string_view subject, std::string_view what, std::string_view fields) {
        metrics_.foreign.add();
        audit_.refused(subject, what, fields);
    }
    [[nodiscard]] AuditLines& audit() { return audit_; }

    // Of all sessions, oldest first; what is found stays valid until something is awaited.
    [[nodiscard]] std::vector<const Session*> all() const;
    [[nodiscard]] const SessionMetrics& metrics() const { return metrics_; }
    [[nodiscard]] const Options& options() const { return options_; }

  private:
    struct Subject {
        uint64_t tenant = 0;
        uint32_t sessions = 0;
    };
    Task<> end(Session& session);
    [[nodiscard]] SessionId draw() const;

    Reactor& reactor_;
    TicketTable& tickets_;
    Options options_;
    Log log_;
    AuditLines audit_;
    bool draining_ = false;
    uint64_t last_tenant_ = 0;
    std::map<SessionId, std::unique_ptr<Session>> sessions_;
    std::map<std::string, Subject, std::less<>> subjects_;
    std::vector<SessionWatcher*> watchers_;
    Event ended_;  // woken whenever a session is gone
    Nursery expelled_;
    SessionMetrics metrics_;
};

}  // namespace ros2s::session
