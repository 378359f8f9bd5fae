#include "issued_capabilities.h"

#include <fmt/format.h>

#include <algorithm>

#include "ros2s/base/trusted_file.h"
#include "ros2s/pki/certificate.h"
#include "ros2s/pki/revocation.h"
#include "ros2s/pki/signature.h"
#include "ros2s/rights/decide.h"

namespace ros2s::engined {
namespace {

constexpr size_t authority_bytes_max = 1 << 20;
// The helper threads have other work, too.
constexpr size_t verified_at_once = 2;

// A later link has no more time than the one before, so all are in time at the last one's begin.
bool is_good_in_its_time(const capability::Chain& chain, capability::Expected expected,
                         std::string_view message, std::string_view proof) {
    const auto claimed = capability::decode(chain.empty() ? std::string_view() : chain.back());
    if (!claimed || claimed->is_in_time(expected.now)) return false;
    expected.now = claimed->not_before;
    std::string unused;
    const auto last = capability::verify(chain, expected, unused);
    return last && capability::is_signed_by(last->holder, message, proof);
}

}  // namespace

IssuedCapabilities::IssuedCapabilities(Environment environment, Pools& pools,
                                       session::SessionTable& sessions,
                                       admission::Admission& admission, Options options)
    : environment_(std::move(environment)),
      pools_(pools),
      sessions_(sessions),
      admission_(admission),
      options_(std::move(options)),
      issuing_(environment_.reactor, SIZE_MAX, of_caller_max),
      showing_(environment_.reactor, SIZE_MAX, of_caller_max),
      verifying_(environment_.reactor, verified_at_once) {}

Task<Result<>> IssuedCapabilities::check_authority(Report& report) {
    co_return co_await environment_.blocking.run(environment_.reactor, [&]() -> Result<> {
        Report why;
        const auto certificate = pki::read_certificate(options_.authority_file, why);
        const auto lists = pki::read_revocations(options_.authority_file, why);
        if (certificate && lists) return {};
        return report.fail(certificate ? lists.error() : certificate.error(),
                           "'capabilities: authority' in the settings: {}{}", why.text(),
                           certificate ? ""
                                       : "; name the ca.crt of the authority that signs the "
                                         "certificates of tenants' hosts");
    });
}

Task<Result<>> IssuedCapabilities::begin(Report& report) {
    for (const std::string& pool : pools_.names()) {
        ROS2S_CO_TRY_ASSIGN(auto issuer,
                            co_await capability::Issuer::open(
                                environment_, pools_.capability_keys_file(pool), report));
        issuers_.emplace(pool, std::move(issuer));
    }
    co_return Result<>{};
}

std::optional<control::Capabilities::Description> IssuedCapabilities::describe(
    std::string_view pool) const {
    const auto issuer = issuers_.find(pool);
    if (issuer == issuers_.end()) return std::nullopt;
    return Description{
        .audience = pools_.id(pool), .issuers = issuer->second->keys(), .delegate = std::nullopt};
}

bool IssuedCapabilities::is_delegate(std::string_view subject) const {
    return sessions_.rights().policy().is_delegate(subject);
}

bool IssuedCapabilities::may_show(std::string_view subject, std::string_view pool) const {
    if (!pools_.has(pool)) return false;
    return is_delegate(subject) ||
           !sessions_.rights().policy().principal(subject, pool).tenant.empty();
}

std::unexpected<Error> IssuedCapabilities::refuse(std::string_view subject, const Attempt& attempt,
                                                  std::string_view why, Report& report) {
    const std::string sentence = fmt::format("{} {}: refused: {}", subject, attempt.what, why);
    sessions_.refused({.subject = subject,
                       .peer = attempt.peer,
                       .session = attempt.session,
                       .action = AuditAction::capability,
                       .object = AuditObject{.pool = attempt.pool},
                       .decision = AuditDecision::refused,
                       .reason = Error{.code = Code::denied},
                       .text = sentence});
    return report.fail(Code::denied, sentence);
}

Task<Result<IssuedCapabilities::Turn>> IssuedCapabilities::take_turn(Turns<std::string>& turns,
                                                                     const Call& call,
                                                                     std::string caller,
                                                                     Report& report) {
    auto turn = co_await turns.enter(call, std::move(caller));
    Result<> entered;
    if (turn) entered = co_await verifying_.acquire_for(call);
    if (turn && entered) co_return Turn{std::move(*turn), SemaphoreHold(verifying_)};
    co_return report.fail(turn ? entered.error() : turn.error(),
                          "the engine verified other capabilities until this call had to end; try "
                          "again, with fewer calls at once");
}

// ---- issuing ----------------------------------------------------------------------------------

Task<Result<IssuedCapabilities::Requester>> IssuedCapabilities::verify_requester(
    const control::SignedCapabilityRequest& wanted, const std::string& pool, Report& report) {
    const pki::Seconds now =
        std::chrono::floor<std::chrono::seconds>(environment_.reactor.wall_time());
    co_return co_await environment_.blocking.run(
        environment_.reactor, [this, &wanted, &pool, &report, now]() -> Result<Requester> {
            Report hidden;  // the path is no business of whoever asks
            const auto authority =
                read_trusted(options_.authority_file, authority_bytes_max, hidden);
            if (!authority) {
                return report.fail(Code::denied,
                                   "the engine cannot read its authority of tenants' "
                                   "certificates ('capabilities: authority')");
            }
            Report problem;
            const auto revoked = pki::read_revocations(options_.authority_file, problem);
            if (!revoked) return report.fail(Code::denied, problem.text());
            const auto until =
                pki::verify_client(wanted.certificates, *authority, *revoked, now, problem);
            if (!until) return report.fail(Code::denied, problem.text());
            ROS2S_TRY_ASSIGN(std::string subject,
                             pki::signer_of(wanted.certificates,
                                            capability::request_message(wanted.wanted, pool),
                                            wanted.signature, report));
            constexpr auto last = std::chrono::floor<std::chrono::seconds>(WallTime::max());
            return Requester{std::move(subject), WallTime(std::min<pki::Seconds>(*until, last))};
        });
}

Task<Result<bool>> IssuedCapabilities::is_owner(const Call& call, const std::string& pool,
                                                const tenancy::Tenant& tenant,
                                                const std::string& label) {
    const uint64_t account = sessions_.account_of(tenant.name, pool)->number;
    admission::Permit turn =
        co_await lines_.try_emplace(account, admission_, account).first->second.enter(0, call.stop);
    Result<bool> owns = fail(Code::cancelled);
    if (turn) {
        const auto all = co_await pools_.find(pool)->list_containers(call);
        if (all) {
            owns = std::ranges::any_of(*all, [&](const object::ContainerRecord& each) {
                return each.properties.label == label && each.properties.owner == tenant.owner();
            });
        } else {
            owns = fail(all.error());
        }
        turn.correct_cost(all ? admission::cost_ns_of_entries(all->size()) : 0);
        turn.release();
    }
    // The line of a call that was stopped may be gone already.
    const auto line = lines_.find(account);
    if (line != lines_.end() && line->second.is_idle()) lines_.erase(line);
    co_return owns;
}

Task<Result<capability::Use>> IssuedCapabilities::part_granted(const Call& call,
                                                               const std::string& pool,
                                                               const tenancy::Tenant& tenant,
                                                               capability::Use use) {
    capability::Use whole{.rights = {}, .directories = false, .container = use.container};
    capability::Use parts{.rights = {}, .directories = true, .container = use.container};
    for (const rights::Right right : rights::all_rights) {
        if (!use.rights.names(right)) continue;
        capability::Use one{.rights = right, .directories = false, .container = use.container};
        if (rights::give(tenant.grants, "", one) && !use.directories) whole.rights.add(right);
        one.directories = true;
        if (rights::give(tenant.grants, "", one)) parts.rights.add(right);
    }
    const rights::Rights missing = use.rights.without(whole.rights).without(rights::Right::create);
    if (!missing.is_empty() && !use.directories && !use.container.is_prefix()) {
        ROS2S_CO_TRY_ASSIGN(const bool owns,
                            co_await is_owner(call, pool, tenant, use.container.text));
        if (owns) whole.rights.add(missing);
    }
    if (use.rights.is_empty()) co_return whole;
    capability::Use& most = parts.rights.without(whole.rights).is_empty() ? whole : parts;
    if (most.rights.is_empty()) co_return fail(Code::denied);
    co_return std::move(most);
}

Task<Result<std::string>> IssuedCapabilities::issue(const Call& call, std::string caller,
                                                    std::string peer, std::string pool,
                                                    control::SignedCapabilityRequest signed_request,
                                                    Report& report) {
    const Attempt what{pool, peer, 0, fmt::format("requested a capability of the pool '{}'", pool)};
    Report why;
    Result<Requester> requester;
    {
        ROS2S_CO_TRY_ASSIGN(const Turn turn, co_await take_turn(issuing_, call, caller, report));
        requester = co_await verify_requester(signed_request, pool, why);
    }
    if (!requester) co_return refuse(caller, what, why.text(), report);
    const auto wanted = capability::decode_request(signed_request.wanted);
    if (!wanted || wanted->audience != pools_.id(pool)) {
        co_return refuse(requester->subject, what, "the request is malformed, or of another pool",
                         report);
    }
    if (caller != requester->subject && !is_delegate(caller)) {
        co_return refuse(caller, what, "it requested one for another subject", report);
    }
    const rights::Policy& policy = sessions_.rights().policy();
    const auto& tenants = pools_.tenants(pool)->tenants();
    const auto found = tenants.find(policy.principal(requester->subject, pool).tenant);
    if (found == tenants.end() || !found->second.is_active(environment_.reactor.wall_time())) {
        co_return refuse(requester->subject, what, "it has no active tenant", report);
    }
    // The record may change meanwhile; its generation not.
    const tenancy::Tenant tenant = found->second;
    if (environment_.reactor.wall_time() < tenant.clock_min) {
        co_return refuse(requester->subject, what, to_string(rights::Why::clock_behind), report);
    }
    if (tenant.has_revoked(wanted->holder)) {
        co_return refuse(requester->subject, what, "a capability of this program was revoked",
                         report);
    }
    const auto use = co_await part_granted(call, pool, tenant, wanted->use);
    if (!use && use.error().code != Code::denied) co_return fail(use.error());
    if (!use) {
        co_return refuse(
            requester->subject, what,
            fmt::format("the tenant '{}' has no right to {} the container '{}'", tenant.name,
                        to_string(wanted->use.rights), wanted->use.container.text),
            report);
    }
    const WallTime until = std::min(requester->until, tenant.until.value_or(WallTime::max()));
    const Duration life =
        std::min<Duration>(options_.life, until - environment_.reactor.wall_time());
    const std::string made = issuers_.find(pool)->second->issue({.use = *use,
                                                                 .tenant = tenant.name,
                                                                 .audience = wanted->audience,
                                                                 .holder = wanted->holder,
                                                                 .generation = tenant.generation},
                                                                life);
    co_return made;
}

Task<Result<>> IssuedCapabilities::rotate(std::string pool, Report& report) {
    co_return co_await issuers_.find(pool)->second->rotate(report);
}

// ---- verifying --------------------------------------------------------------------------------

Task<Result<>> IssuedCapabilities::show(const Call& call, session::Session& session,
                                        capability::Chain chain, std::string nonce,
                                        std::string proof, Report& report) {
    const std::string& subject = session.request.subject;
    const std::string& pool = session.request.pool;
    const capability::Expected expected{.audience = pools_.id(pool),
                                        .issuers = issuers_.find(pool)->second->keys(),
                                        .now = environment_.reactor.wall_time()};
    const std::string message =
        capability::proof_message(nonce, session.id.value, session.shows->provider, chain);
    std::string why;
    bool only_time = false;
    Result<capability::Capability> verified;
    {
        ROS2S_CO_TRY_ASSIGN(const Turn turn, co_await take_turn(showing_, call, subject, report));
        verified = co_await environment_.blocking.run(
            environment_.reactor, [&]() -> Result<capability::Capability> {
                const auto last = capability::verify(chain, expected, why);
                if (last && capability::is_signed_by(last->holder, message, proof)) return *last;
                if (last) why = "its holder did not sign for this session";
                only_time = !last && is_good_in_its_time(chain, expected, message, proof);
                return fail(Code::denied);
            });
    }
    const Attempt what{pool, session.request.from, session.id.value,
                       fmt::format("showed a capability of the pool '{}'", pool)};
    if (!verified) {
        const auto refused = refuse(subject, what, why, report);
        if (!only_time || !is_delegate(subject)) co_return refused;
        // This machine's clock was set, or the DPU's hosts were late: the DPU waits for another
        // one.
        co_return fail(Code::stale);
    }
    const auto shown = std::make_shared<const rights::VerifiedCapability>(
        pool, *capability::decode(chain.front()), *verified);  // all of the chain was verified
    const rights::Policy& policy = sessions_.rights().policy();
    const rights::Why wrong = check_holder(policy, policy.holder(subject, shown),
                                           {.wall = environment_.reactor.wall_time()});
    if (wrong != rights::Why::granted) {
        const auto refused = refuse(subject, what, to_string(wrong), report);
        const bool may_follow_another = wrong == rights::Why::tenant_changed ||
                                        wrong == rights::Why::capability_revoked ||
                                        wrong == rights::Why::capability_out_of_time;
        if (!may_follow_another || !is_delegate(subject)) co_return refused;
        // A DPU hears of the change. Its hosts then open new sessions, and hand over another one.
        co_return fail(Code::stale);
    }
    const auto& before = session.shows->capability;
    if (before != nullptr &&
        (before->last.tenant != verified->tenant || before->last.use != verified->use)) {
        co_return refuse(subject, what, "the session is for another use", report);
    }
    const bool is_new = before == nullptr;
    if (is_new) sessions_.use_account(session, verified->tenant);
    session.shows->capability = shown;
    if (is_new) {  // the line is its tenant's
        sessions_.audit().say(event_of(
            session, AuditAction::capability,
            {.pool = pool, .container = verified->use.container.text}, AuditDecision::allowed,
            std::nullopt,
            fmt::format("session {} of {} is for the tenant '{}': {} of the pool '{}', "
                        "capability {}{}",
                        session.id.value, subject, verified->tenant, verified->use.text(), pool,
                        verified->id.to_string(),
                        verified->depth == 1
                            ? ""
                            : fmt::format(", made from {}", shown->first.id.to_string()))));
    }
    co_return Result<>{};
}

// ---- revoking ---------------------------------------------------------------------------------

Task<Result<uint64_t>> IssuedCapabilities::revoke(std::string pool, std::string tenant,
                                                  Uuid capability, Report& report) {
    // The record ends its sessions (SessionTable::end_sessions()) and outlives the capability,
    // whatever its life.
    tenancy::RevokedCapability revoked{.until = environment_.reactor.wall_time() +
                                                capability::life_max + capability::clock_slack};
    uint64_t sessions = 0;
    std::string other_tenant;
    for (const session::Session* const session : sessions_.all()) {
        if (session->request.pool != pool || !session->shows_capability()) continue;
        const auto& [of_pool, first, last] = *session->shows->capability;
        const bool is_first = first.id == capability;
        if (!is_first && last.id != capability) continue;
        if (first.tenant != tenant) {
            // The last one's number was chosen by its program, perhaps to be another tenant's.
            if (is_first) other_tenant = first.tenant;
            continue;
        }
        if (is_first || !revoked.program) revoked.program = first.holder;
        ++sessions;
    }
    if (sessions == 0 && !other_tenant.empty()) {
        co_return report.fail(Code::invalid,
                              "the capability {} is of the tenant '{}', and not of '{}'",
                              capability.to_string(), other_tenant, tenant);
    }
    ROS2S_CO_TRY(co_await pools_.tenants(pool)->revoke_capability(std::move(tenant), capability,
                                                                  revoked, report));
    co_return sessions;
}

std::vector<control::CapabilityInUse> IssuedCapabilities::in_use(std::string_view pool,
                                                                 std::string_view tenant) const {
    std::vector<control::CapabilityInUse> all;
    for (const session::Session* const session : sessions_.all()) {
        if (session->request.pool != pool || !session->shows_capability()) continue;
        const auto& [of_pool, first, last] = *session->shows->capability;
        if (last.tenant != tenant) continue;
        all.push_back({.first = first.id,
                       .last = last.id,
                       .use = last.use,
                       .shown_by = session->request.subject,
                       .expires = last.expires});
    }
    return all;
}

}  // namespace ros2s::engined
