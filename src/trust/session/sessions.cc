#include "sessions.h"

#include <fmt/format.h>

#include <algorithm>

#include "ros2s/base/check.h"
#include "ros2s/base/process_end.h"
#include "ros2s/pki/signature.h"
#include "ros2s/rights/decide.h"

namespace ros2s::session {

void SessionMetrics::visit(const MetricVisitor& visit) const {
    visit("ros2store_sessions", "Open sessions", live.value());
    visit("ros2store_sessions_opened_total", "Sessions opened", opened.value());
    visit("ros2store_sessions_ended_total", "Sessions that ended, for any reason", ended.value());
    visit("ros2store_sessions_reaped_total", "Sessions ended because they were not used",
          reaped.value());
    visit("ros2store_sessions_refused_total", "Sessions refused because there are too many",
          refused.value());
    visit("ros2store_sessions_foreign_total",
          "Requests for a session, mount or handle of another client", foreign.value());
}

Uuid owner_of(std::string_view subject) { return pki::fingerprint(subject); }

std::string Session::who() const {
    return fmt::format(
        "{} ({}){}", request.subject, request.from,
        shows_capability() ? fmt::format(" for the tenant '{}'", tenant_name()) : "");
}

AuditEvent event_of(const Session& session, AuditAction action, const AuditObject& object,
                    AuditDecision decision, std::optional<Error> reason, std::string_view text) {
    return {.subject = session.audit_subject(),
            .peer = session.request.from,
            .session = session.id.value,
            .action = action,
            .object = object,
            .decision = decision,
            .reason = reason,
            .text = text,
            .shown_by = session.shown_by()};
}

SessionTable::SessionTable(Reactor& reactor, TicketTable& tickets, Options options, Log log)
    : reactor_(reactor),
      tickets_(tickets),
      options_(options),
      audit_(reactor, std::move(log)),
      rights_(reactor),
      own_accounts_(reactor),
      accounts_(options.accounts != nullptr ? *options.accounts : own_accounts_),
      bound_({.per_subject = options.per_subject_max, .in_all = options.sessions_max}),
      ended_(reactor),
      evicted_(reactor, options.sessions_max) {}

SessionTable::~SessionTable() { ROS2S_CHECK(sessions_.empty()); }

// A client must not learn other numbers from its own, nor how many there are.
SessionId SessionTable::draw() const {
    for (;;) {
        const SessionId id{tickets_.options().entropy() >> 16};
        if (id.value != 0 && !sessions_.contains(id)) return id;
    }
}

uint64_t SessionTable::live_sessions_of(const admission::Account& account) const {
    return static_cast<uint64_t>(std::ranges::count_if(sessions_, [&](const auto& each) {
        const Session& session = *each.second;
        return session.account_.get() == &account && !session.is_for_another_ && !session.ending;
    }));
}

Result<SessionUse> SessionTable::open(SessionRequest request, std::string* why) {
    if (draining_) return fail(Code::closed);
    const Session::Bound::Who who{
        .tenant = std::string(accounts_.name_for(request.subject, request.pool)),
        .subject = request.subject};
    auto share = bound_.take(who);
    if (!share) {
        metrics_.refused.add();
        if (share.error() == Session::Bound::Limit::all) {
            return fail(Code::no_memory, options_.sessions_max);
        }
        accounts_.count_refusal(request.subject, request.pool);
        return fail(Code::busy, bound_.used(who));
    }
    auto account = accounts_.open(request.subject, request.pool);
    // Counted only here: a count for each account would change with its sessions.
    if (const uint64_t most = account->sessions_max(); live_sessions_of(*account) >= most) {
        metrics_.refused.add();
        account->metrics.refused.add();
        if (why != nullptr) *why = account->at_limit("sessions", most);
        return fail(Code::busy, most);
    }
    account->metrics.sessions.add();
    const SessionId id = draw();
    auto session = std::make_unique<Session>(reactor_, id, std::move(account), std::move(request));
    session->last_use = reactor_.now();
    session->share_ = std::move(*share);
    Session& opened = *sessions_.emplace(id, std::move(session)).first->second;
    metrics_.opened.add();
    metrics_.live.add();
    audit_.say(event_of(opened, AuditAction::session, {.pool = opened.request.pool},
                        AuditDecision::allowed, std::nullopt,
                        fmt::format("session {} opened by {} for {} of pool {} ({})", id.value,
                                    opened.request.subject, to_string(opened.request.purpose),
                                    opened.request.pool, opened.request.program)));
    return SessionUse(opened);
}

Result<SessionUse> SessionTable::find(SessionId id, std::string_view subject,
                                      std::string_view from) {
    const auto found = sessions_.find(id);
    if (found == sessions_.end() || found->second->ending) return fail(Code::stale);
    if (const std::string& owner = found->second->request.subject; owner != subject) {
        foreign({.subject = subject,
                 .peer = from,
                 .session = id.value,
                 .action = AuditAction::session,
                 .object = AuditObject{.pool = found->second->request.pool},
                 .decision = AuditDecision::refused,
                 .reason = Error{.code = Code::stale},
                 .text = fmt::format("{} ({}) requested session {}, which is {}'s: refused",
                                     subject, from.empty() ? "here" : from, id.value, owner)});
        return fail(Code::stale);
    }
    found->second->last_use = reactor_.now();
    return SessionUse(*found->second);
}

Result<SessionUse> SessionTable::use(SessionId id, Time now) {
    const auto found = sessions_.find(id);
    if (found == sessions_.end() || found->second->ending) return fail(Code::stale);
    found->second->last_use = now;
    return SessionUse(*found->second);
}

void SessionTable::refused(const AuditEvent& event, uint64_t tenant) {
    if (const auto account = accounts_.find(tenant)) {
        account->metrics.refused.add();
    } else {
        accounts_.count_refusal(*event.subject, (*event.object).pool);
    }
    audit_.say(event);
}

Task<Result<>> SessionTable::wait_for_rights(const Call& call, SessionId id) {
    const Session* const session = look(id);
    if (session == nullptr) co_return Result<>{};
    co_return co_await rights_.wait(call, session->request.pool);
}

void SessionTable::use_account(Session& session, std::string_view tenant) {
    auto account = accounts_.open(tenant, session.request.pool);
    session.is_for_another_ = account != session.account_;
    if (session.is_for_another_) {
        const std::string& subject = session.request.subject;
        session.share_ = bound_.count({.tenant = subject, .subject = subject}, 1);
    }
    session.account_->metrics.sessions.subtract();
    session.account_ = std::move(account);
    session.account_->metrics.sessions.add();
    session.tenant = session.account_->number;
}

const Session* SessionTable::look(SessionId id) const {
    const auto found = sessions_.find(id);
    return found == sessions_.end() ? nullptr : found->second.get();
}

Result<IssuedTicket> SessionTable::issue_ticket(const Session& session) {
    // Its tickets have been revoked already, and this one would outlive it.
    if (session.ending) return fail(Code::stale);
    return tickets_.issue({.session = session.id,
                           .subject = session.request.subject,
                           .tenant = session.tenant,
                           .purpose = session.request.purpose,
                           .client = session.request.client});
}

Result<SessionUse> SessionTable::attach(const Ticket& ticket, ListenerScope scope,
                                        const Uuid& client, TicketHolder* whose) {
    ROS2S_TRY_ASSIGN(const TicketHolder holder, tickets_.redeem(ticket, scope, client, whose));
    const auto found = sessions_.find(holder.session);
    if (found == sessions_.end() || found->second->ending) return fail(Code::denied);
    ++found->second->connections;
    found->second->is_disconnected = false;
    found->second->last_use = reactor_.now();
    return SessionUse(*found->second);
}

void SessionTable::detach(SessionId id) {
    const auto found = sessions_.find(id);
    if (found == sessions_.end()) return;
    ROS2S_CHECK(found->second->connections > 0);
    found->second->is_disconnected = --found->second->connections == 0;
    found->second->last_use = reactor_.now();
}

Task<> SessionTable::close(SessionId id) {
    const auto found = sessions_.find(id);
    if (found == sessions_.end()) co_return;
    if (!found->second->ending) {
        co_await end(*found->second);
        co_return;
    }
    while (sessions_.contains(id)) co_await ended_;
}

Task<> SessionTable::end(Session& session) {
    session.ending = true;
    tickets_.revoke(session.id);
    while (session.in_use_ > 0) co_await session.idle_;
    // By index: watchers may be added or removed meanwhile.
    for (size_t i = 0; i < watchers_.size(); ++i) co_await watchers_[i]->session_ending(session);
    audit_.say(
        event_of(session, AuditAction::session, {.pool = session.request.pool},
                 AuditDecision::ended, std::nullopt,
                 fmt::format("session {} of {} ended", session.id.value, session.request.subject)));
    session.account_->metrics.sessions.subtract();
    sessions_.erase(session.id);
    metrics_.ended.add();
    metrics_.live.subtract();
    ended_.wake_all();
}

void SessionTable::evict(SessionId id, std::string_view why) {
    const auto found = sessions_.find(id);
    if (found == sessions_.end()) return;
    Session& session = *found->second;
    if (session.revoked.stop_requested()) return;
    const bool is_ending = session.ending;
    audit_.say(event_of(
        session, AuditAction::session, {.pool = session.request.pool}, AuditDecision::ended,
        Error{.code = Code::denied},
        fmt::format("session {} of {} is ended: {}", id.value, session.request.subject, why)));
    session.ending = true;
    for (SessionWatcher* const watcher : watchers_) watcher->session_revoked(session);
    session.revoked.request_stop();
    if (!is_ending) ROS2S_CHECK(evicted_.try_spawn(end(session)));
}

std::string SessionTable::why_ended(const Session& session, const rights::Policy& before,
                                    EndsWith change) const {
    const rights::Policy& now = rights_.policy();
    const std::string &subject = session.request.subject, &pool = session.request.pool;
    if (session.shows_capability()) {
        const rights::Why why = check_holder(now, now.holder(subject, session.shows->capability),
                                             {.wall = reactor_.wall_time()});
        // reap() ends those whose time is over.
        const bool is_good =
            why == rights::Why::granted || why == rights::Why::capability_out_of_time;
        return is_good ? "" : fmt::format("its capability: {}", to_string(why));
    }
    if (session.shows) return {};
    if (!now.covers(before, subject, pool)) {
        // At an engine, whose sessions end with nothing else.
        return change == EndsWith::rights ? "the tenant of its subject was revoked or has expired"
                                          : "rights of its subject were taken away";
    }
    if (change == EndsWith::rights) return {};
    if (session.account_->name != accounts_.name_for(subject, pool)) {
        return "its subject belongs to another tenant now";
    }
    const std::string tenant = before.principal(subject, pool).tenant;
    const rights::TenantParty *const then = before.tenant(pool, tenant), *const its = now.tenant(
                                                                             pool, tenant);
    const bool is_same =
        change == EndsWith::tenant || then == nullptr ||
        (its != nullptr && its->is_active == then->is_active &&
         its->generation == then->generation && its->revocations == then->revocations);
    return is_same ? "" : "the record of its tenant was changed";
}

void SessionTable::end_sessions(const rights::Policy& before, EndsWith change) {
    for (const Session* const session : all()) {
        const std::string why = why_ended(*session, before, change);
        if (!why.empty()) evict(session->id, why);
    }
}

Task<> SessionTable::close_all() {
    draining_ = true;
    // Concurrently: a session whose file system does not answer does not delay the others.
    std::vector<SessionId> open;
    for (const auto& [id, session] : sessions_) {
        if (!session->ending) open.push_back(id);
    }
    for (const SessionId id : open) {
        const auto found = sessions_.find(id);
        if (found == sessions_.end() || found->second->ending) continue;
        ROS2S_CHECK(evicted_.try_spawn(end(*found->second)));
    }
    while (!sessions_.empty()) co_await ended_;
    co_await evicted_.join();
}

namespace {

// The process was a proxy's, or has left its connection to a child: the client connects again.
constexpr Duration process_gone_max = std::chrono::seconds(1);

}  // namespace

Duration SessionTable::spared(const Session& session) const {
    if (!session.is_disconnected) return options_.idle_max;
    const bool is_gone = session.process > 0 && has_ended(static_cast<pid_t>(session.process));
    return is_gone ? process_gone_max : options_.disconnected_max;
}

Task<> SessionTable::reap(StopToken stop) {
    // What has expired ends within a second, its requests included.
    constexpr Duration pause_max = std::chrono::milliseconds(750);
    const Duration pause =
        std::min({options_.idle_max / 4, options_.disconnected_max / 4, pause_max});
    while (co_await sleep_for(reactor_, pause, stop)) {
        for (;;) {
            const auto unused = std::ranges::find_if(sessions_, [&](const auto& each) {
                const Session& session = *each.second;
                return !session.ending && session.connections == 0 && session.in_use_ == 0 &&
                       session.last_use <= reactor_.now() - spared(session);
            });
            if (unused == sessions_.end()) break;
            metrics_.reaped.add();
            // Concurrently: a session whose file system does not answer does not delay the others.
            ROS2S_CHECK(evicted_.try_spawn(end(*unused->second)));
        }
        std::vector<std::pair<SessionId, std::string_view>> expired;
        for (const auto& [id, session] : sessions_) {
            if (session->credential.until <= reactor_.wall_time()) {
                expired.emplace_back(id, "its certificate expired");
            } else if (session->shows_capability() &&
                       !session->shows->capability->last.is_in_time(reactor_.wall_time())) {
                expired.emplace_back(id, "its capability expired, or the clock was set back");
            }
        }
        for (const auto& [id, why] : expired) evict(id, why);
    }
}

std::vector<const Session*> SessionTable::all() const {
    std::vector<const Session*> sessions;
    for (const auto& each : sessions_) sessions.push_back(each.second.get());
    return sessions;
}

}  // namespace ros2s::session
