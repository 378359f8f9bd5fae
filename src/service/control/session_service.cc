#include "session_service.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "fields.h"

namespace ros2s::control {
namespace {

uint64_t milliseconds(Duration duration) {
    return static_cast<uint64_t>(
        std::chrono::duration_cast<std::chrono::milliseconds>(duration).count());
}

}  // namespace

Result<session::SessionUse> ServerState::session(Served& served, uint64_t number) const {
    auto found = parts.sessions.find({number}, served.subject, served.peer);
    if (found) {
        served.call.tenant = (*found)->tenant;
        served.session = number;
        // A client that renewed its certificate keeps its session.
        session::Credential& shown = (*found)->credential;
        if (shown.chain != served.credential.chain) shown = served.credential;
        return found;
    }
    return served.report.fail(
        found.error(),
        "{} has no session {}; it ended, or belongs to another client. Open a new one",
        served.subject, number);
}

Task<Result<>> ServerState::wait_for_rights(Served& served, std::string pool) const {
    if (!parts.sessions.rights().is_over(parts.reactor.now())) co_return Result<>{};
    const Result<> held = co_await parts.sessions.rights().wait(served.call, std::move(pool),
                                                                rights::Feed::patience_of_calls);
    if (held || held.error().code != Code::disconnected) co_return held;
    co_return served.report.fail(held.error(), "{}", describe(held.error()));
}

Task<Result<>> ServerState::wait_for_rights(Served& served, session::SessionId number) const {
    if (!parts.sessions.rights().is_over(parts.reactor.now())) co_return Result<>{};
    const session::Session* const session = parts.sessions.look(number);
    if (session == nullptr) co_return Result<>{};
    co_return co_await wait_for_rights(served, session->request.pool);
}

namespace {

AuditEvent event_of(const Served& served, AuditAction action, const AuditObject& object,
                    std::optional<Error> reason, std::string_view text) {
    return {.subject = served.subject,
            .peer = served.peer,
            .session = served.session,
            .action = action,
            .object = object,
            .decision = reason ? AuditDecision::refused : AuditDecision::allowed,
            .reason = reason,
            .text = text};
}

// `what` the caller wanted of `described` in the pool, and the setting that would allow it.
std::unexpected<Error> refuse(const ServerState& state, Served& served, rights::Why reason,
                              AuditAction action, std::string_view what, const AuditObject& object,
                              std::string_view described, std::string_view setting) {
    const Error denied{.code = Code::denied};
    served.audited = true;
    // Elsewhere, the administrator is another server's.
    const bool keeps_tenants = state.parts.pools.tenants(object.pool) != nullptr;
    if (keeps_tenants && reason == rights::Why::tenant_ended) {
        const std::string why = fmt::format(
            "its tenant in the pool '{}' was revoked or has expired; an administrator can make it "
            "active again with `ros2store tenant set`",
            object.pool);
        state.parts.sessions.refused(
            event_of(served, action, object, denied,
                     fmt::format("{} ({}) may not {} {}: refused; {}", served.subject, served.peer,
                                 what, described, why)));
        return served.report.fail(denied, "{} may not {} {}: {}", served.subject, what, described,
                                  why);
    }
    state.parts.sessions.refused(
        event_of(served, action, object, denied,
                 session::not_allowed_text(served.subject, served.peer, what, described, setting)));
    return served.report.fail(denied,
                              "{} may not {} {}, or it does not exist; the administrator of the "
                              "server can allow it under 'access' in its settings",
                              served.subject, what, described);
}

}  // namespace

rights::Decision ServerState::decide(const Served& served, const rights::Container& container,
                                     rights::Wanted what) const {
    return rights::decide(policy(), policy().principal(served.subject, container.pool), container,
                          what);
}

Result<> ServerState::permit(Served& served, rights::Right right,
                             const rights::Container& container) const {
    const rights::Wanted what = rights::wanted(right);
    const rights::Decision decision = decide(served, container, what);
    if (decision.is_whole_for(what)) return {};
    return refuse(served, decision, right, container);
}

std::unexpected<Error> ServerState::refuse(Served& served, const rights::Decision& decision,
                                           rights::Right right,
                                           const rights::Container& container) const {
    const std::string place = fmt::format("{}/{}", container.pool, container.label);
    return control::refuse(*this, served, decision.why, session::action_of(right), to_string(right),
                           {.pool = container.pool, .container = container.label},
                           "the container " + place,
                           fmt::format("{}: {}", to_string(right), place));
}

Result<> ServerState::permit(Served& served, const std::string& pool) const {
    const rights::Decision decision = decide(served, {.pool = pool}, rights::Wanted::see_pool);
    if (!decision.is_none()) return {};
    return control::refuse(*this, served, decision.why, AuditAction::use, "use", {.pool = pool},
                           fmt::format("the pool '{}'", pool),
                           fmt::format("read: {}/CONTAINER", pool));
}

bool ServerState::is_administrator(const Served& served) const {
    const auto& administrators = options.administrators;
    return std::ranges::find(administrators, served.subject) != administrators.end();
}

Result<> ServerState::permit_administration(Served& served, std::string_view here,
                                            const std::string& pool, std::string_view what) const {
    if (is_administrator(served)) return {};
    served.audited = true;
    parts.sessions.refused(
        event_of(served, AuditAction::administer, {.pool = pool}, Error{.code = Code::denied},
                 fmt::format("{} ({}) may not {} the pool '{}': refused; to allow it, the settings "
                             "need: administrators: \"{}\"",
                             served.subject, served.peer, here, pool, served.subject)));
    return served.report.fail(
        Code::denied, "{} may not {}; the engine's settings name who may, under 'administrators'",
        served.subject, what);
}

std::vector<std::string> ServerState::pools_for(const Served& served) const {
    std::vector<std::string> pools = parts.pools.names();
    std::erase_if(pools, [&](const std::string& pool) {
        return decide(served, {.pool = pool}, rights::Wanted::see_pool).is_none();
    });
    return pools;
}

void ServerState::audit(const Served& served, AuditAction action, const AuditObject& object,
                        std::string_view what) const {
    parts.sessions.audit().say(
        event_of(served, action, object, std::nullopt,
                 fmt::format("{} ({}) {}", served.subject, served.peer, what)));
}

void ServerState::refused(const Served& served, std::string_view method, const Error& error) const {
    std::string why = served.report.empty() ? describe(error) : served.report.text();
    if (const std::string& notes = served.report.notes(); !notes.empty()) why += ": " + notes;
    const std::string text =
        fmt::format("the call {} by {} ({}) was refused: {}", method,
                    served.subject.empty() ? "no subject" : served.subject, served.peer, why);
    const AuditEvent event = event_of(served, AuditAction::call, {}, error, text);
    if (served.counted) {
        parts.sessions.audit().say(event);
    } else {
        parts.sessions.refused(event, served.call.tenant);
    }
}

Result<const DataAddress*> SessionService::choose(const v1::OpenSessionRequest& request,
                                                  Report& report) const {
    for (const std::string& wanted : request.providers()) {
        const auto found = std::ranges::find(state_.options.data, wanted, &DataAddress::provider);
        if (found != state_.options.data.end()) return &*found;
    }
    std::vector<std::string> ours;
    for (const DataAddress& each : state_.options.data) ours.push_back(each.provider);
    return report.fail(Code::unsupported, "none of the providers {} is offered here; available: {}",
                       fmt::join(request.providers(), ", "),
                       ours.empty() ? "none" : fmt::format("{}", fmt::join(ours, ", ")));
}

Result<> SessionService::give_ticket(Served& served, const session::Session& session,
                                     v1::Ticket& into) {
    const auto issued = state_.parts.sessions.issue_ticket(session);
    if (!issued && issued.error().code == Code::stale) {
        return served.report.fail(Code::stale, "session {} is ending. Open a new one",
                                  session.id.value);
    }
    if (!issued) {
        return served.report.fail(
            issued.error(), "too many tickets are unused; use them, or wait until they expire");
    }
    into.set_ticket(std::string(issued->ticket.view()));
    into.set_lifetime_ms(milliseconds(issued->expires - state_.gate.reactor.now()));
    return {};
}

Task<Result<>> SessionService::open(Served& served, const v1::OpenSessionRequest& request,
                                    v1::OpenSessionReply& reply) {
    Report& report = served.report;
    ROS2S_CO_TRY_ASSIGN(auto wanted, decode(request, served.subject, report));
    wanted.from = served.peer;
    if (state_.draining) {
        co_return report.fail(
            Code::closed,
            "the server is stopping; use another one, or try again when it runs again");
    }
    if (wanted.purpose != state_.options.purpose) {
        co_return report.fail(Code::unsupported,
                              "this server has sessions for {}, not for {}; use an engine's "
                              "address for store and a DPU's for link",
                              session::to_string(state_.options.purpose),
                              session::to_string(wanted.purpose));
    }
    ROS2S_CO_TRY(co_await state_.wait_for_rights(served, wanted.pool));
    const Capabilities* const capabilities = state_.parts.capabilities;
    const bool may_show = request.shows_capability() && capabilities != nullptr &&
                          capabilities->may_show(served.subject, wanted.pool);
    if (!may_show) ROS2S_CO_TRY(state_.permit(served, wanted.pool));
    if (request.shows_capability() && !may_show) {
        co_return report.fail(Code::denied,
                              "{} may not show capabilities here; the engine's settings name who "
                              "may, under 'capabilities: delegates'",
                              served.subject);
    }
    const PoolCatalog& pools = state_.parts.pools;
    if (!pools.has(wanted.pool)) {
        co_return report.fail(Code::not_found, "there is no pool '{}' here; available: {}",
                              wanted.pool, fmt::join(state_.pools_for(served), ", "));
    }
    ROS2S_CO_TRY_ASSIGN(const DataAddress* const address, choose(request, report));
    const std::string shows_over = may_show ? address->provider : std::string();
    const auto opened = enter(served, std::move(wanted), shows_over, reply);
    if (!opened) co_return fail(opened.error());
    if (!opened->ticket) {  // without a ticket the session is useless
        co_await state_.parts.sessions.close(opened->id);
        co_return opened->ticket;
    }
    auto entry = co_await this->address_for(opened->id, *address, report);
    if (!entry) {
        co_await state_.parts.sessions.close(opened->id);
        co_return fail(entry.error());
    }
    reply.set_session(opened->id.value);
    reply.set_provider(address->provider);
    reply.set_address(std::move(*entry));
    reply.set_idle_ms(milliseconds(state_.parts.sessions.options().idle_max));
    co_return Result<>{};
}

Task<Result<std::string>> SessionService::address_for(session::SessionId id,
                                                      const DataAddress& address, Report& report) {
    if (state_.parts.tenant_listeners == nullptr) co_return address.address;
    ROS2S_CO_TRY_ASSIGN(const auto session, state_.parts.sessions.use(id));
    co_return co_await state_.parts.tenant_listeners->open(*session, address.provider, report);
}

std::string SessionService::draw_nonce() const {
    std::string nonce;
    while (nonce.size() < capability::nonce_bytes) {
        const uint64_t part = state_.gate.reactor.secrets().next();
        nonce.append(reinterpret_cast<const char*>(&part), sizeof part);
    }
    return nonce;
}

Result<SessionService::Entered> SessionService::enter(Served& served,
                                                      session::SessionRequest wanted,
                                                      const std::string& shows_over,
                                                      v1::OpenSessionReply& reply) {
    std::string why = "there are too many; close some";
    const auto opened = state_.parts.sessions.open(std::move(wanted), &why);
    if (!opened) {
        served.counted = true;
        return served.report.fail(
            opened.error(), "cannot open a session for {}: {}", served.subject,
            opened.error().code == Code::closed ? "the server is stopping" : why);
    }
    (*opened)->credential = served.credential;
    if (!shows_over.empty()) {
        (*opened)->shows = {.nonce = draw_nonce(), .provider = shows_over, .capability = {}};
        reply.set_nonce((*opened)->shows->nonce);
        return Entered{(*opened)->id, {}};
    }
    return Entered{(*opened)->id, give_ticket(served, **opened, *reply.mutable_ticket())};
}

Task<Result<>> SessionService::show_capability(Served& served,
                                               const v1::ShowCapabilityRequest& request,
                                               v1::ShowCapabilityReply& reply) {
    ROS2S_CO_TRY_ASSIGN(auto chain, decode(request.chain(), served.report));
    ROS2S_CO_TRY(check_size("proof", request.proof(), capability::signature_bytes, served.report));
    ROS2S_CO_TRY_ASSIGN(const auto session, state_.session(served, request.session()));
    if (!session->shows) {
        co_return served.report.fail(Code::invalid,
                                     "this session was not opened to show a capability");
    }
    const bool is_first = !session->shows_capability();
    served.audited = true;
    // Whatever comes of it, the nonce is used.
    const std::string nonce = std::exchange(session->shows->nonce, draw_nonce());
    ROS2S_CO_TRY(co_await state_.parts.capabilities->show(served.call, *session, std::move(chain),
                                                          nonce, request.proof(), served.report));
    reply.set_nonce(session->shows->nonce);
    if (is_first) ROS2S_CO_TRY(give_ticket(served, *session, *reply.mutable_ticket()));
    co_return Result<>{};
}

Task<Result<>> SessionService::keep_alive(Served& served, const v1::KeepAliveRequest& request,
                                          v1::KeepAliveReply& reply) {
    ROS2S_CO_TRY(state_.session(served, request.session()));  // finding it counts as use
    reply.set_idle_ms(milliseconds(state_.parts.sessions.options().idle_max));
    co_return Result<>{};
}

Task<Result<>> SessionService::issue_ticket(Served& served, const v1::IssueTicketRequest& request,
                                            v1::IssueTicketReply& reply) {
    ROS2S_CO_TRY(co_await state_.wait_for_rights(served, session::SessionId{request.session()}));
    ROS2S_CO_TRY_ASSIGN(const auto session, state_.session(served, request.session()));
    if (session->shows && !session->shows_capability()) {
        co_return served.report.fail(Code::denied, "this session has shown no capability yet");
    }
    co_return give_ticket(served, *session, *reply.mutable_ticket());
}

Task<Result<>> SessionService::close(Served& served, const v1::CloseSessionRequest& request,
                                     v1::CloseSessionReply&) {
    // The use ends with this statement, because closing waits for all uses.
    ROS2S_CO_TRY(state_.session(served, request.session()));
    co_await state_.parts.sessions.close({request.session()});
    co_return Result<>{};
}

}  // namespace ros2s::control
