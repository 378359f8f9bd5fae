#include "store_router.h"

#include <fmt/format.h>

#include <algorithm>

#include "ros2s/base/check.h"
#include "ros2s/base/codec.h"
#include "ros2s/base/process_end.h"

namespace ros2s::engined {
namespace {

constexpr size_t known_max = 16384;

using Use = remote::ContainerPolicy::Use;
constexpr rights::Right right_for(Use use) {
    switch (use) {
        case Use::read: return rights::Right::read;
        case Use::write: return rights::Right::write;
        case Use::destroy: break;
    }
    return rights::Right::destroy;
}

}  // namespace

StoreRouter::StoreRouter(session::SessionTable& sessions, Pools& pools)
    : sessions_(sessions), pools_(pools), policy_(sessions.rights().policy()) {
    for (const std::string& name : pools.names()) {
        servers_.emplace(name, std::make_unique<remote::StoreServer>(*pools.find(name), this));
    }
    sessions_.watch(*this);
}
StoreRouter::~StoreRouter() { sessions_.unwatch(*this); }

namespace {

// A mount that was killed comes back for nothing. Hosts of a DPU come back through the next one,
// and children of a program with what it had open: their pins last as long as pins without a
// session.
bool is_over(const session::Session& session) {
    const bool is_mount = session.request.program.starts_with("ros2store-fuse");
    return is_mount && session.process > 0 && has_ended(static_cast<pid_t>(session.process));
}

}  // namespace

// Its connections have ended, because the gate watches sessions, too, and was registered before.
Task<> StoreRouter::session_ending(session::Session& session) {
    const auto server = servers_.find(session.request.pool);
    // Of an engine that ends, clients come back to the next one. Nobody had their locks meanwhile.
    const bool is_served = server != servers_.end() && !sessions_.is_closing();
    if (is_served && is_over(session)) {
        server->second->client_ended(session.id.value);
    } else if (is_served) {
        server->second->session_ended(session.id.value);
    }
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
    return found != decisions_.end() && found->second.epoch == policy_.epoch() &&
           found->second.allowed.has(right_for(use));
}

Task<Result<>> StoreRouter::decide(rpc::Request& request, object::ContainerId container, Use use) {
    const DecisionKey key{request.guest().session, container.uuid};
    auto known = decisions_.find(key);
    while (known == decisions_.end() || known->second.epoch != policy_.epoch()) {
        const uint64_t epoch = policy_.epoch();
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
        CachedDecision decision{.epoch = epoch, .allowed = {}, .label = record->properties.label};
        for (const rights::Right right :
             {rights::Right::read, rights::Right::write, rights::Right::destroy}) {
            if (allows(session, rights::wanted(right), record->properties)) {
                decision.allowed.add(right);
            }
        }
        if (decisions_.size() >= known_max) decisions_.clear();
        known = decisions_.insert_or_assign(key, std::move(decision)).first;
    }
    if (known->second.allowed.has(right_for(use))) co_return Result<>{};
    co_return refuse(request, right_for(use), known->second.label);
}

rights::Principal StoreRouter::principal_of(const session::Session& session) const {
    const session::SessionRequest& who = session.request;
    if (!session.shows) return policy_.principal(who.subject, who.pool);
    return policy_.holder(who.subject, session.shows->capability);
}

bool StoreRouter::allows(const session::Session& session, rights::Wanted what,
                         const object::ContainerProperties& container) const {
    const rights::Principal principal = principal_of(session);
    const rights::Decision decision = rights::decide(
        policy_, principal,
        {.pool = session.request.pool, .label = container.label, .owner = container.owner}, what);
    const bool checks_directories =
        principal.capability && principal.capability->last.use.directories;
    return checks_directories ? decision.is_some_for(what) : decision.is_whole_for(what);
}

Result<> StoreRouter::permit_creation(const rpc::Request& request, const std::string& label) {
    if (allows(session_of(request), rights::Wanted::create, {.label = label})) return {};
    return refuse(request, rights::Right::create, label);
}

// Nobody may claim to be another one.
Result<> StoreRouter::own(const rpc::Request& request, object::ContainerProperties& properties) {
    const session::Session& session = session_of(request);
    const session::SessionRequest& who = session.request;
    if (auto named = pools_.owner_named(who.pool, properties.owner)) {
        properties.owner = std::move(*named);
    }
    const std::string owner = principal_of(session).owner;
    if (!owner.empty() && (properties.owner.empty() || properties.owner == owner)) {
        properties.owner = owner;
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
    return allows(session_of(request), rights::Wanted::see, container.properties);
}

Result<> StoreRouter::refuse(const rpc::Request& request, rights::Right right,
                             const std::string& label) {
    const session::Session& session = session_of(request);
    // It had the rights when the request began, and is ending.
    if (session.revoked.stop_requested()) return fail(Code::stale);
    const session::SessionRequest& who = session.request;
    const std::string container = fmt::format("{}/{}", who.pool, label);
    sessions_.audit().say(event_of(
        session, session::action_of(right), {.pool = who.pool, .container = label},
        AuditDecision::refused, Error{.code = Code::denied},
        session.shows ? fmt::format("{} may not {} the container {}: refused; its capability lacks "
                                    "the right, which `ros2store tenant set` can give",
                                    session.who(), to_string(right), container)
                      : session::not_allowed_text(
                            who.subject, who.from, to_string(right), "the container " + container,
                            fmt::format("{}: {}", to_string(right), container))));
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

std::vector<std::string> StoreRouter::containers_of(session::SessionId session) const {
    std::vector<std::string> labels;
    for (auto each = decisions_.lower_bound({session.value, Uuid{}});
         each != decisions_.end() && each->first.first == session.value; ++each) {
        labels.push_back(each->second.label);
    }
    return labels;
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
