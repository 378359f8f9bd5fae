// SessionTable: the sessions of a server. A session is one authenticated association of a client
// with this server. The control plane opens it for the subject of a certificate. Data-plane
// connections attach to it with tickets. It ends when the client or an operator ends it, when its
// certificate is no longer valid, or after some time unused and without a connection. That time is
// short if it had a connection before, because then the client has usually died.
//
// Sessions of one tenant share an account (admission/accounts.h). Its number is the tenant's. The
// tenant is the subject's tenant in the session's pool. A session that shows a capability uses the
// account of the capability's tenant.
//
//     open ──► live ──► ending ──► gone
//               │ ▲       tickets revoked, calls drained, watchers done
//        attach ▼ │ detach
//             connections
//
// Owned by the program; outlives both planes. Thread rule: used on one core.
//
// Invariants
// - Only its own subject can find a session. For others it does not exist.
// - Session numbers are random. They reveal nothing about other sessions, and an old number from an
//   earlier process does not reach another client's session.
// - A Session does not move while a SessionUse refers to it; ending waits for that.
// - Bounded: sessions in all, per subject, per account and by the account's limit, tickets per
//   session and subject. Lowering a limit ends no session.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ros2s/admission/accounts.h"
#include "ros2s/base/log.h"
#include "ros2s/base/metrics.h"
#include "ros2s/base/quota.h"
#include "ros2s/base/result.h"
#include "ros2s/rights/feed.h"
#include "ros2s/rpc/rpc_metrics.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/reactor.h"
#include "ros2s/runtime/stop.h"
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
    std::string from{};   // the control-plane client's address: "ipv4:192.0.2.7:51234", "unix:"
};

// The certificate that admitted its subject.
struct Credential {
    std::string chain;  // certificates as PEM
    WallTime until = WallTime::max();
};

// The state of a session that was opened to show a capability. It has the rights of the capability,
// not those of its subject.
struct ShownCapability {
    std::string nonce;     // of the next proof
    std::string provider;  // of its data plane
    // Null: none was shown yet, and the session gets no ticket.
    std::shared_ptr<const rights::VerifiedCapability> capability;
};

// The owner of the names of a subject's clients (UpdateName::owner): the same in every process.
[[nodiscard]] Uuid owner_of(std::string_view subject);

// A reference to a session or mount for the time of a call. The session or mount ends only after
// the reference.
template <class T>
class [[nodiscard]] InUse {
  public:
    explicit InUse(T& used) : used_(&used) { ++used_->in_use_; }
    InUse(InUse&& other) noexcept : used_(std::exchange(other.used_, nullptr)) {}
    InUse(const InUse&) = delete;
    InUse& operator=(const InUse&) = delete;
    InUse& operator=(InUse&&) = delete;
    ~InUse() {
        if (used_ != nullptr && --used_->in_use_ == 0) used_->idle_.wake_all();
    }
    T* operator->() const { return used_; }
    T& operator*() const { return *used_; }

  private:
    T* used_;
};

class Session {
  public:
    // By account and subject. A session for another tenant counts for its subject alone.
    using Bound = QuotaOf<std::string, std::string>;

    Session(Reactor& reactor, SessionId number, std::shared_ptr<admission::Account> account,
            SessionRequest what)
        : id(number),
          tenant(account->number),
          request(std::move(what)),
          owner(owner_of(request.subject)),
          account_(std::move(account)),
          idle_(reactor) {}

    const SessionId id;
    uint64_t tenant;  // the number of its account
    const SessionRequest request;
    const Uuid owner;       // of the client's names, set here and not by the client
    Credential credential;  // the last one that its subject presented
    std::optional<ShownCapability> shows{};
    uint32_t connections = 0;  // data-plane connections
    int64_t process = -1;      // on this machine, that they all come from; -1: not known
    Time last_use{};
    bool is_disconnected = false;  // it had connections, and all have ended
    bool ending = false;
    // Of its requests.
    const std::shared_ptr<rpc::GuestMetrics> metrics = std::make_shared<rpc::GuestMetrics>();
    // Fires when the session's rights are revoked (SessionTable::evict()). It stops updates in
    // progress. The end of their connection does not stop them.
    StopSource revoked{};
    // The same for all sessions of the tenant, and for no others.
    [[nodiscard]] const std::string& tenant_name() const noexcept { return account_->name; }
    [[nodiscard]] admission::Account& account() const noexcept { return *account_; }
    [[nodiscard]] bool shows_capability() const noexcept {
        return shows.has_value() && shows->capability != nullptr;
    }
    // The subject for audit lines, which are limited per subject: the tenant whose capability the
    // session shows, or its own subject. A delegated DPU has sessions for many tenants under one
    // subject.
    [[nodiscard]] const std::string& audit_subject() const noexcept {
        return shows_capability() ? tenant_name() : request.subject;
    }
    [[nodiscard]] std::string_view shown_by() const noexcept {
        return shows_capability() ? std::string_view(request.subject) : std::string_view();
    }
    // For sentences: "CN=bob (unix:)", "CN=dpu (unix:) for the tenant 'bob'".
    [[nodiscard]] std::string who() const;

  private:
    friend class InUse<Session>;
    friend class SessionTable;
    std::shared_ptr<admission::Account> account_;
    bool is_for_another_ = false;  // its account is not that of its subject
    Bound::Share share_;
    uint32_t in_use_ = 0;
    Event idle_;  // woken when in_use_ becomes 0
};

using SessionUse = InUse<Session>;

// An audit event about an action or request of the session's client.
[[nodiscard]] AuditEvent event_of(const Session& session, AuditAction action,
                                  const AuditObject& object, AuditDecision decision,
                                  std::optional<Error> reason, std::string_view text);

// Owns resources of sessions, for example open files or connections, and releases them when the
// session ends.
class SessionWatcher {
  public:
    virtual ~SessionWatcher() = default;
    // The session was revoked: its requests stop now. Others wait for it to be idle.
    virtual void session_revoked(Session& /*session*/) {}
    // The session accepts no new calls and no connections any more, and its tickets are revoked.
    virtual Task<> session_ending(Session& session) = 0;
};

struct SessionMetrics {
    Counter live, opened, ended, reaped, refused;
    Counter foreign;  // requests for sessions, mounts and handles of another subject
    void visit(const MetricVisitor& visit) const;
};

class SessionTable {
  public:
    struct Options {
        uint32_t sessions_max = 4096;
        uint32_t per_subject_max = 256;
        // A session ends after this time without a connection and without a call.
        Duration idle_max = std::chrono::seconds(60);
        // The same for a session whose connections have all ended: a live client reconnects within
        // a second or two, and each attempt is a call. A second if its process here is gone.
        static constexpr Duration disconnected_max = std::chrono::seconds(5);
        // The accounts of the subjects; null: the table's own, with the default allowance.
        admission::Accounts* accounts = nullptr;
    };
    SessionTable(Reactor& reactor, TicketTable& tickets, Options options, Log log = {});
    ~SessionTable();  // call close_all() first
    // close_all() was called: sessions end because this process does.
    [[nodiscard]] bool is_closing() const { return draining_; }
    SessionTable& operator=(SessionTable&&) = delete;

    // Errors: busy (the subject or its tenant has too many), no_memory (the table is full), closed
    // (draining). `why`: gets the sentence if a limit of the tenant refused it.
    [[nodiscard]] Result<SessionUse> open(SessionRequest request, std::string* why = nullptr);
    // Errors: stale (this subject has no session with that number). `from`: the subject's address,
    // for the audit line if the session belongs to another subject.
    [[nodiscard]] Result<SessionUse> find(SessionId id, std::string_view subject,
                                          std::string_view from = {});
    // Errors: stale (the session is ending), those of TicketTable::issue().
    [[nodiscard]] Result<IssuedTicket> issue_ticket(const Session& session);

    // For the data plane: redeems the ticket, and counts the connection until detach(). Errors:
    // denied.
    [[nodiscard]] Result<SessionUse> attach(const Ticket& ticket, ListenerScope scope,
                                            const Uuid& client, TicketHolder* whose = nullptr);
    void detach(SessionId id);
    // For a call over a connection that attach() admitted. `now`: for a caller that has just read
    // the clock. Errors: stale.
    [[nodiscard]] Result<SessionUse> use(SessionId id, Time now);
    [[nodiscard]] Result<SessionUse> use(SessionId id) { return use(id, reactor_.now()); }

    // From now on the session's requests count for that tenant, not for its subject's tenant. Call
    // it before the session's first ticket. The tenant's limit of sessions applies only where its
    // own clients open sessions.
    void use_account(Session& session, std::string_view tenant);
    // The account of a subject, which need not have a session.
    [[nodiscard]] std::shared_ptr<admission::Account> account_of(std::string_view subject,
                                                                 std::string_view pool) {
        return accounts_.open(subject, pool);
    }
    // Also finds sessions that are ending. Null: the session is gone. Valid until the next await.
    [[nodiscard]] const Session* look(SessionId id) const;

    // Ends the session and returns when its resources are released, even if another call began to
    // end it. Does nothing if there is no such session.
    Task<> close(SessionId id);
    // Ends the session in the background, because its rights were revoked. Stops its requests and
    // updates wherever they wait. An audit line has the reason. Does nothing if there is no such
    // session. A session that is already ending no longer waits for its updates.
    void evict(SessionId id, std::string_view why);
    // What ends a session of a subject when the policy changes.
    enum class EndsWith : uint8_t {
        rights,  // the loss of a right
        tenant,  // also: its subject belongs to another tenant
        record,  // also: another record of its tenant, which invalidates what the tenant has signed
    };
    // After news: evicts the sessions that have less than by `before`, and those whose capability
    // is invalid now.
    void end_sessions(const rights::Policy& before, EndsWith change);
    // Refuses new sessions and ends all existing ones.
    Task<> close_all();
    // Ends unused sessions, and those whose certificate or capability has expired, until it is
    // stopped. The control plane's server runs it.
    Task<> reap(StopToken stop);

    // Watchers are called in the order of registration. A watcher is removed before it is
    // destroyed.
    void watch(SessionWatcher& watcher) { watchers_.push_back(&watcher); }
    void unwatch(SessionWatcher& watcher) { std::erase(watchers_, &watcher); }

    // Counts and logs a subject's request for something that belongs to another subject.
    void foreign(const AuditEvent& event, uint64_t tenant = 0) {
        metrics_.foreign.add();
        refused(event, tenant);
    }
    // Records a refusal that no data-plane reply counts: writes an audit line and counts it for the
    // tenant. `tenant`: the account, if known; otherwise the subject's account in the pool is used.
    void refused(const AuditEvent& event, uint64_t tenant = 0);
    [[nodiscard]] AuditLines& audit() { return audit_; }
    [[nodiscard]] const AuditLines& audit() const { return audit_; }

    // The rights of this server's clients.
    [[nodiscard]] rights::Feed& rights() { return rights_; }
    // For requests that need the rights of that session, if rights().is_over(): waits for
    // news of its pool, without holding the session. Errors: those of rights::Feed::wait().
    Task<Result<>> wait_for_rights(const Call& call, SessionId id);

    // All sessions, oldest first. The pointers are valid until the next await.
    [[nodiscard]] std::vector<const Session*> all() const;
    [[nodiscard]] const SessionMetrics& metrics() const { return metrics_; }
    [[nodiscard]] const Options& options() const { return options_; }
    [[nodiscard]] const admission::Accounts& accounts() const { return accounts_; }

  private:
    // Empty: it goes on.
    [[nodiscard]] std::string why_ended(const Session& session, const rights::Policy& before,
                                        EndsWith change) const;
    // How long it stays without a connection and without a call.
    [[nodiscard]] Duration spared(const Session& session) const;
    Task<> end(Session& session);
    [[nodiscard]] SessionId draw() const;
    // Sessions of the tenant's own clients, without ending ones.
    [[nodiscard]] uint64_t live_sessions_of(const admission::Account& account) const;

    Reactor& reactor_;
    TicketTable& tickets_;
    Options options_;
    AuditLines audit_;
    rights::Feed rights_;
    bool draining_ = false;
    admission::Accounts own_accounts_;
    admission::Accounts& accounts_;
    Session::Bound bound_;
    std::map<SessionId, std::unique_ptr<Session>> sessions_;
    std::vector<SessionWatcher*> watchers_;
    Event ended_;  // woken whenever a session is gone
    Nursery evicted_;
    SessionMetrics metrics_;
};

}  // namespace ros2s::session
