#include "store_router.h"

#include <fmt/format.h>

#include <algorithm>

#include "ros2s/base/check.h"
#include "ros2s/base/codec.h"
#include "ros2s/rights/side_by_side.h"
#include "ros2s/rights/sources/capability.h"
#include "ros2s/tenancy/capability_rights.h"

namespace ros2s::engined {
namespace {

constexpr size_t known_max = 16384;

using Use = remote::ContainerPolicy::Use;
constexpr std::array<session::Right, 3> rights_by_use{session::Right::read, session::Right::write,
                                                      session::Right::destroy};
constexpr size_t index_of(Use use) { return static_cast<size_t>(use); }

}  // namespace

StoreRouter::StoreRouter(session::SessionTable& sessions, Pools& pools,
                         const session::AccessTable& access)
    : sessions_(sessions), pools_(pools), access_(access) {
    for (const std::string& name : pools.names()) {
        servers_.emplace(name, std::make_unique<remote::StoreServer>(*pools.find(name), this));
    }
    sessions_.watch(*this);
}
StoreRouter::~StoreRouter() { sessions_.unwatch(*this); }

// Its connections have ended, because the gate watches sessions, too, and was registered before.
Task<> StoreRouter::session_ending(session::Session& session) {
    const auto server = servers_.find(session.request.pool);
    if (server != servers_.end()) server->second->session_ended(session.id.value);
    decisions_.erase(decisions_.lower_bound({session.id.value, Uuid{}}),
                     decisions_.lower_bound({session.id.value + 1, Uuid{}}));
    co_return;
}

Task<> StoreRouter::serve(rpc::Request& request) {
    const auto session = sessions_.use({request.guest().session}, request.arrived());
    if (!session) co_return co_await request.fail(session.error(), "the session has ended");
    const auto server = servers_.find((*session)->request.pool);
    if (server == servers_.end()) {
        co_return co_await request.fail({.code = Code::not_found},
                                        "the session's pool is not served here");
    }
    co_await server->second->serve(request);
    times_.add(request.method(), request.took());
}

void StoreRouter::refused(const rpc::Request& request, const Error& why) {
    const session::Session* const session = sessions_.look({request.guest().session});
    // The code that decides about rights has reported more than this.
    if (session == nullptr || why.code == Code::denied) return;
    const session::SessionRequest& who = session->request;
    if (!sessions_.audit().has_room_for_request(session->audit_subject())) return;
    // Most bodies begin with a container.
    const auto decision = decisions_.find({session->id.value, Decoder(request.body()).uuid()});
    const std::string_view container =
        decision == decisions_.end() ? std::string_view() : decision->second.label;
    sessions_.audit().write(event_of(
        *session, session::action_of(work(request)), {.pool = who.pool, .container = container},
        AuditDecision::refused, why,
        fmt::format("the request {} of {} in {}/{} was refused: {}", method_name(request.method()),
                    session->who(), who.pool, container, describe(why))));
}

const session::Session& StoreRouter::session_of(const rpc::Request& request) const {
    const session::Session* const session = sessions_.look({request.guest().session});
    ROS2S_CHECK(session != nullptr);
    return *session;
}

// ---- rights ---------------------------------------------------------------------------------

bool StoreRouter::permits(const rpc::Request& request, object::ContainerId container,
                          Use use) const {
    const auto found = decisions_.find({request.guest().session, container.uuid});
    return found != decisions_.end() && found->second.may[index_of(use)];
}

Task<Result<>> StoreRouter::decide(rpc::Request& request, object::ContainerId container, Use use) {
    const DecisionKey key{request.guest().session, container.uuid};
    while (!decisions_.contains(key)) {
        const uint64_t changes = rights_changes_;
        const session::Session& session = session_of(request);
        object::ObjectStore& store = *pools_.find(session.request.pool);
        // A listing looks at all containers. A client can name as many as it likes that do not
        // exist, and nothing is kept of these: they are not listed.
        if (container == object::ContainerId{}) co_return Result<>{};
        const auto space = co_await store.space(request.call(), container);
        if (!space && space.error().code == Code::not_found) co_return Result<>{};
        ROS2S_CO_TRY_ASSIGN(const auto all, co_await store.list_containers(request.call()));
        request.charge(admission::cost_ns_of_entries(all.size()));
        const auto record = std::ranges::find(all, container, &object::ContainerRecord::id);
        if (record == all.end()) co_return Result<>{};
        if (changes != rights_changes_) continue;
        CachedDecision decision{.label = record->properties.label};
        for (size_t each = 0; each < rights_by_use.size(); ++each) {
            decision.may[each] = may(session, rights_by_use[each], record->properties);
        }
        if (decisions_.size() >= known_max) decisions_.clear();
        decisions_.emplace(key, std::move(decision));
    }
    const CachedDecision& decision = decisions_.find(key)->second;
    if (decision.may[index_of(use)]) co_return Result<>{};
    co_return refuse(request, rights_by_use[index_of(use)], decision.label);
}

Result<> StoreRouter::permit_creation(const rpc::Request& request, const std::string& label) {
    const session::Session& session = session_of(request);
    // A record that was edited while no engine ran has the generation of the capability.
    const bool allowed =
        allows(session, session::Right::create, label) &&
        (!session.shows ||
         tenant_gives(session, {.rights = capability::right_create, .container = label}));
    if (checked(allowed, session, {}, rights::Wanted::create, {.label = label})) return {};
    return refuse(request, session::Right::create, label);
}

// A capability has its rights, and no more. With the right to create a container, its tenant can
// use the one that it has made.
bool StoreRouter::has_all_rights(const session::Session& session, const Owner& owner,
                                 const object::ContainerProperties& container) {
    if (container.owner.empty() || owner != container.owner) return false;
    return !session.shows ||
           session.shows->capability->use.covers({.rights = capability::right_create,
                                                  .directories = false,
                                                  .container = container.label});
}

StoreRouter::Owner StoreRouter::owner_of(const session::Session& session) const {
    const session::SessionRequest& who = session.request;
    return session.shows ? pools_.owner_named(who.pool, session.shows->capability->tenant)
                         : pools_.owner_of(who.pool, who.subject);
}

// Nobody may claim to be another one.
Result<> StoreRouter::own(const rpc::Request& request, object::ContainerProperties& properties) {
    const session::Session& session = session_of(request);
    const session::SessionRequest& who = session.request;
    if (auto named = pools_.owner_named(who.pool, properties.owner)) {
        properties.owner = std::move(*named);
    }
    const Owner owner = owner_of(session);
    if (owner && (properties.owner.empty() || properties.owner == *owner)) {
        properties.owner = *owner;
        return {};
    }
    if (!session.shows && pools_.is_administrator(who.subject)) return {};
    sessions_.audit().say(event_of(
        session, AuditAction::create, {.pool = who.pool, .container = properties.label},
        AuditDecision::refused, Error{.code = Code::denied},
        fmt::format("{} may not create the container '{}' for '{}' in the pool {}: refused; {}",
                    session.who(), properties.label, properties.owner, who.pool,
                    session.shows
                        ? "its capability is for containers of its own tenant"
                        : fmt::format("to allow it, the settings need: administrators: \"{}\"",
                                      who.subject))));
    return fail(Code::denied);
}

bool StoreRouter::shows(const rpc::Request& request,
                        const object::ContainerRecord& container) const {
    const session::Session& session = session_of(request);
    const session::SessionRequest& who = session.request;
    const object::ContainerProperties& what = container.properties;
    if (!session.shows) {
        return access_.sees(who.subject, who.pool, what.label) ||
               has_all_rights(session, owner_of(session), what);
    }
    const capability::Capability& shown = *session.shows->capability;
    const auto& tenants = pools_.tenants(who.pool)->tenants();
    const auto tenant = tenants.find(shown.tenant);
    const Owner owner = owner_of(session);
    const bool sees = shown.use.has_container(what.label) &&
                      (owner == what.owner ||
                       (tenant != tenants.end() && tenancy::sees(tenant->second, what.label)));
    return checked(sees, session, owner, rights::Wanted::see, what);
}

bool StoreRouter::allows(const session::Session& session, session::Right right,
                         const std::string& label) const {
    if (!session.shows) {
        return access_.allows(session.request.subject, right, session.request.pool, label);
    }
    // The bits are in the order of session::Right.
    return session.shows->capability->use.covers(
        {.rights = static_cast<uint8_t>(1U << static_cast<unsigned>(right)),
         .directories = true,
         .container = label});
}

bool StoreRouter::may(const session::Session& session, session::Right right,
                      const object::ContainerProperties& container) const {
    const Owner owner = owner_of(session);
    return checked(is_permitted(session, owner, right, container), session, owner,
                   rights::wanted(right), container);
}

bool StoreRouter::is_permitted(const session::Session& session, const Owner& owner,
                               session::Right right,
                               const object::ContainerProperties& container) const {
    if (has_all_rights(session, owner, container)) return true;
    if (!allows(session, right, container.label)) return false;
    if (!session.shows) return true;
    const capability::Capability& shown = *session.shows->capability;
    if (owner == container.owner) return true;
    // An owner's capability names a label. Another one may have the container now, or have made
    // another container of that label.
    return tenant_gives(session,
                        {.rights = static_cast<uint8_t>(1U << static_cast<unsigned>(right)),
                         .directories = shown.use.directories,
                         .container = container.label});
}

bool StoreRouter::tenant_gives(const session::Session& session, const capability::Use& use) const {
    const auto& tenants = pools_.tenants(session.request.pool)->tenants();
    const auto tenant = tenants.find(session.shows->capability->tenant);
    return tenant != tenants.end() && tenancy::gives(tenant->second, use);
}

bool StoreRouter::checked(bool earlier, const session::Session& session, const Owner& owner,
                          rights::Wanted what, const object::ContainerProperties& container) const {
    // The rights of a session that was revoked may have changed while its requests end.
    const rights::Policy* const policy = access_.policy();
    if (policy == nullptr || session.revoked.stop_requested()) return earlier;
    const session::SessionRequest& who = session.request;
    rights::Principal principal{.subject = who.subject, .owner = owner.value_or("")};
    if (session.shows) {
        principal.tenant = session.shows->capability->tenant;
        principal.capability =
            rights::verified(who.pool, *session.shows->first, *session.shows->capability);
    }
    const rights::Container there{
        .pool = who.pool, .label = container.label, .owner = container.owner};
    const rights::Decision decision = rights::decide(*policy, principal, there, what);
    // A clock that was set may end a tenant for one of them before the other.
    if (session.shows && decision.why == rights::Why::tenant_ended) return earlier;
    // A DPU checks directories itself.
    const bool in_directories = session.shows && principal.capability->directories &&
                                decision.scope == rights::Decision::Scope::subtrees &&
                                (what == rights::Wanted::read || !decision.read_only);
    rights::check_same((decision.is_whole_for(what) || in_directories) == earlier,
                       earlier ? "yes" : "no", principal, there, what, decision);
    return earlier;
}

Result<> StoreRouter::refuse(const rpc::Request& request, session::Right right,
                             const std::string& label) {
    const session::Session& session = session_of(request);
    const session::SessionRequest& who = session.request;
    const std::string container = fmt::format("{}/{}", who.pool, label);
    sessions_.audit().say(event_of(
        session, session::action_of(right), {.pool = who.pool, .container = label},
        AuditDecision::refused, Error{.code = Code::denied},
        session.shows
            ? fmt::format("{} may not {} the container {}: refused; its capability lacks the "
                          "right, which `ros2store tenant set` can give",
                          session.who(), session::to_string(right), container)
            : session::not_allowed_text(
                  who.subject, who.from, session::to_string(right), "the container " + container,
                  fmt::format("{}: {}", session::to_string(right), container))));
    return fail(Code::denied);
}

// ---- what was done --------------------------------------------------------------------------

void StoreRouter::audit(const rpc::Request& request, AuditAction action, std::string_view container,
                        std::string_view what) {
    const session::Session& session = session_of(request);
    const std::string& pool = session.request.pool;
    sessions_.audit().say(event_of(
        session, action, {.pool = pool, .container = container}, AuditDecision::allowed,
        std::nullopt,
        fmt::format("{} {} in the pool '{}', on the data plane", session.who(), what, pool)));
}

void StoreRouter::made(const rpc::Request& request, const object::ContainerRecord& container) {
    const std::string& label = container.properties.label;
    audit(request, AuditAction::create, label,
          fmt::format("created the container '{}' ({})", label, container.id.uuid.to_string()));
}

void StoreRouter::destroyed(const rpc::Request& request, object::ContainerId container) {
    const std::string id = container.uuid.to_string();
    audit(request, AuditAction::destroy, id, fmt::format("destroyed the container {}", id));
}

void StoreRouter::add_metrics(std::vector<exporter::Source>& sources) const {
    for (const auto& [name, server] : servers_) {
        sources.push_back(
            {.labels = {{"pool", name}}, .list = [&server = *server](const MetricVisitor& visit) {
                 server.metrics().visit(visit);
             }});
    }
}

}  // namespace ros2s::engined
