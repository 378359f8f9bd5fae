#include "store_service.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "fields.h"
#include "name_turn.h"

namespace ros2s::control {
namespace {

using Store = std::shared_ptr<object::ObjectStore>;

Result<> check_pool(const ServerState& state, Served& served, const std::string& pool) {
    ROS2S_TRY(check_label("pool", pool, served.report));
    ROS2S_TRY(state.permit(served, pool));
    if (const std::string what = state.parts.pools.kept_elsewhere(pool); !what.empty()) {
        return served.report.fail(Code::unsupported,
                                  "the containers of '{}' {}, and they cannot be created, removed "
                                  "or queried over the network",
                                  pool, what);
    }
    if (state.parts.pools.has(pool)) return {};
    return served.report.fail(Code::not_found, "there is no pool '{}' here; available: {}", pool,
                              fmt::join(state.pools_for(served), ", "));
}

// From now on the call is for the subject's tenant in the pool.
void serve_as_tenant(const ServerState& state, Served& served, const std::string& pool) {
    served.call.tenant = state.parts.sessions.account_of(served.subject, pool)->number;
}

// Waits for the tenant's turn. Errors: cancelled.
Task<Result<NameTurn>> take_turn(ServerState& state, const Served& served) {
    NameTurn turn(state, served.call.tenant);
    ROS2S_CO_TRY(co_await turn.begin(served.call));
    co_return turn;
}

// The pool of a request, and its turn.
struct UsedPool {
    Store store;
    NameTurn turn;
    Task<Result<std::vector<object::ContainerRecord>>> containers(const Call& call) {
        auto all = co_await store->list_containers(call);
        if (all) turn.charge(admission::cost_ns_of_entries(all->size()));
        co_return all;
    }
};

Task<Result<UsedPool>> find_pool(ServerState& state, Served& served, std::string pool,
                                 capability::Use use = seeing_only()) {
    ROS2S_CO_TRY(co_await state.wait_for_rights(served, pool));
    ROS2S_CO_TRY(check_pool(state, served, pool));
    serve_as_tenant(state, served, pool);
    ROS2S_CO_TRY_ASSIGN(Store store, co_await state.parts.pools.store_for(
                                         served.call, served.subject, std::move(pool),
                                         std::move(use), served.report));
    ROS2S_CO_TRY_ASSIGN(NameTurn turn, co_await take_turn(state, served));
    co_return UsedPool{.store = std::move(store), .turn = std::move(turn)};
}

using Records = std::vector<object::ContainerRecord>;

// Null: there is none.
const object::ContainerRecord* with_label(const Records& all, const std::string& label) {
    const auto found = std::ranges::find_if(
        all, [&](const object::ContainerRecord& each) { return each.properties.label == label; });
    return found == all.end() ? nullptr : &*found;
}

Result<> no_container(Served& served, const std::string& pool, const std::string& label) {
    return served.report.fail(Code::not_found,
                              "there is no container '{}' in pool '{}'; list the pool's containers",
                              label, pool);
}

// `found`: the container with that label; null: there is none.
rights::Container container_of(const std::string& pool, const std::string& label,
                               const object::ContainerRecord* found) {
    return {.pool = pool,
            .label = label,
            .owner = found == nullptr ? std::string_view() : found->properties.owner};
}

// The containers in which the caller has a right.
Task<Result<std::vector<object::ContainerRecord>>> seen_containers(const ServerState& state,
                                                                   const Served& served,
                                                                   UsedPool& used,
                                                                   std::string pool) {
    ROS2S_CO_TRY_ASSIGN(auto all, co_await used.containers(served.call));
    std::erase_if(all, [&](const object::ContainerRecord& each) {
        const auto container = container_of(pool, each.properties.label, &each);
        return state.decide(served, container, rights::Wanted::see).is_none();
    });
    co_return all;
}

void encode(const object::ContainerRecord& record, v1::Container& into) {
    into.set_label(record.properties.label);
    into.set_uuid(record.id.uuid.bytes.data(), record.id.uuid.bytes.size());
    into.set_chunk_bytes(record.properties.chunk_bytes);
    into.set_created_ns(record.created.time_since_epoch().count());
    into.set_owner(record.properties.owner);
    into.set_cap_bytes(record.properties.caps.bytes);
    into.set_cap_values(record.properties.caps.values);
    into.set_used_bytes(record.used.bytes);
    into.set_used_values(record.used.values);
}

}  // namespace

Task<Result<>> PoolService::list(Served& served, const v1::ListPoolsRequest&,
                                 v1::ListPoolsReply& reply) {
    for (std::string& name : state_.pools_for(served)) reply.add_pools(std::move(name));
    co_return Result<>{};
}

Task<Result<>> PoolService::query(Served& served, const v1::QueryPoolRequest& request,
                                  v1::QueryPoolReply& reply) {
    ROS2S_CO_TRY_ASSIGN(UsedPool used, co_await find_pool(state_, served, request.pool()));
    ROS2S_CO_TRY_ASSIGN(const auto space, co_await used.store->space(served.call, {}));
    ROS2S_CO_TRY_ASSIGN(const auto containers,
                        co_await seen_containers(state_, served, used, request.pool()));
    reply.set_total_bytes(space.total_bytes);
    reply.set_free_bytes(space.free_bytes);
    reply.set_containers(containers.size());
    reply.set_path(state_.parts.pools.path(request.pool()));
    co_return Result<>{};
}

namespace {

// The update name under which the store does it once.
template <class Request>
Result<> name_change(Served& served, const Request& request) {
    if (!request.has_change()) return {};
    const v1::ContainerChange& change = request.change();
    UpdateName& name = served.update;
    if (change.client().size() != name.client.bytes.size() || change.sequence() == 0 ||
        change.slot() >= UpdateName::slots_max) {
        return served.report.fail(
            Code::invalid,
            "a change has a client of {} bytes, slot {} and sequence {}; a client has {} bytes, "
            "slots are below {}, and sequences begin at 1",
            change.client().size(), change.slot(), change.sequence(), name.client.bytes.size(),
            UpdateName::slots_max);
    }
    std::ranges::copy(change.client(), name.client.bytes.begin());
    name.slot = change.slot();
    name.sequence = change.sequence();
    name.owner = session::owner_of(served.subject);
    name.digest = digest_without(request, &Request::clear_change);
    if (name.client.is_nil()) {
        return served.report.fail(Code::invalid,
                                  "the client of a change is all zeros; use a random UUID");
    }
    served.call.update = &name;
    served.call.repeated = change.repeated();
    return {};
}

// Returns whether this destruction repeats one that was done. The label may belong to another
// container by now, so it is looked up for any container. Errors: not_found (it was not done),
// stale (unknown).
Task<Result<>> look_for_answer(Served& served, object::ObjectStore& store) {
    if (!served.call.repeated) co_return fail(Code::not_found);
    co_return co_await store.destroy_container(served.call, {});
}

}  // namespace

Task<Result<>> ContainerService::create(Served& served, const v1::CreateContainerRequest& request,
                                        v1::CreateContainerReply& reply) {
    ROS2S_CO_TRY(name_change(served, request));
    ROS2S_CO_TRY(co_await state_.wait_for_rights(served, request.pool()));
    ROS2S_CO_TRY(check_pool(state_, served, request.pool()));
    ROS2S_CO_TRY(check_label("label", request.label(), served.report));
    ROS2S_CO_TRY(state_.permit(served, rights::Right::create,
                               {.pool = request.pool(), .label = request.label()}));
    rights::Principal principal = state_.policy().principal(served.subject, request.pool());
    object::ContainerProperties properties{
        .label = request.label(),
        .owner = std::move(principal.owner),
        .caps = {.bytes = request.cap_bytes(), .values = request.cap_values()}};
    if (request.chunk_bytes() != 0) properties.chunk_bytes = request.chunk_bytes();
    if (properties.chunk_bytes % block_bytes != 0 ||
        properties.chunk_bytes > object::transaction_bytes_max) {
        co_return served.report.fail(
            Code::invalid, "chunk_bytes is {}; give a multiple of {} up to {}",
            properties.chunk_bytes, block_bytes, object::transaction_bytes_max);
    }
    served.user = {.uid = request.uid(), .gid = request.gid()};
    const auto owner = principal.users.caller_for(served.user);
    if (!owner) {
        co_return served.report.fail(owner.error(), "{} may not create containers for user {}",
                                     served.subject, request.uid());
    }
    serve_as_tenant(state_, served, request.pool());
    ROS2S_CO_TRY_ASSIGN(NameTurn turn, co_await take_turn(state_, served));
    // It may wait for the removal of another container.
    turn.end();
    ROS2S_CO_TRY_ASSIGN(const auto made,
                        co_await state_.parts.pools.create_container(
                            served.call, served.subject, request.pool(), std::move(properties),
                            {.uid = owner->uid, .gid = owner->gid}, served.report));
    state_.audit(served, AuditAction::create,
                 {.pool = request.pool(), .container = request.label()},
                 fmt::format("created the container {}/{} ({})", request.pool(), request.label(),
                             made.id.uuid.to_string()));
    encode(made, *reply.mutable_container());
    co_return Result<>{};
}

Task<Result<>> ContainerService::list(Served& served, const v1::ListContainersRequest& request,
                                      v1::ListContainersReply& reply) {
    ROS2S_CO_TRY(check_label("pool", request.pool(), served.report));
    ROS2S_CO_TRY(state_.permit(served, request.pool()));
    if (!state_.parts.pools.kept_elsewhere(request.pool()).empty()) {
        serve_as_tenant(state_, served, request.pool());
        const auto labels = co_await state_.parts.pools.labels(served.call, request.pool());
        if (!labels) {
            co_return served.report.fail(labels.error(),
                                         "the containers of '{}' cannot be listed: {}",
                                         request.pool(), describe(labels.error()));
        }
        for (const std::string& label : *labels) {
            const rights::Container container{.pool = request.pool(), .label = label};
            if (state_.decide(served, container, rights::Wanted::see).is_none()) continue;
            reply.add_containers()->set_label(label);
        }
        co_return Result<>{};
    }
    ROS2S_CO_TRY_ASSIGN(UsedPool used, co_await find_pool(state_, served, request.pool()));
    ROS2S_CO_TRY_ASSIGN(const auto seen,
                        co_await seen_containers(state_, served, used, request.pool()));
    for (const object::ContainerRecord& each : seen) encode(each, *reply.add_containers());
    co_return Result<>{};
}

Task<Result<>> ContainerService::query(Served& served, const v1::QueryContainerRequest& request,
                                       v1::QueryContainerReply& reply) {
    ROS2S_CO_TRY_ASSIGN(UsedPool used, co_await find_pool(state_, served, request.pool()));
    ROS2S_CO_TRY(check_label("label", request.label(), served.report));
    ROS2S_CO_TRY_ASSIGN(const Records all, co_await used.containers(served.call));
    const object::ContainerRecord* const found = with_label(all, request.label());
    // Any right is enough to know that it exists.
    const auto container = container_of(request.pool(), request.label(), found);
    const auto seen = state_.decide(served, container, rights::Wanted::see);
    if (seen.is_none()) co_return state_.refuse(served, seen, rights::Right::read, container);
    if (found == nullptr) co_return no_container(served, request.pool(), request.label());
    encode(*found, *reply.mutable_container());
    co_return Result<>{};
}

Task<Result<>> ContainerService::set(Served& served, const v1::SetContainerRequest& request,
                                     v1::SetContainerReply& reply) {
    ROS2S_CO_TRY_ASSIGN(UsedPool used, co_await find_pool(state_, served, request.pool()));
    ROS2S_CO_TRY(state_.permit_administration(served, "set caps in", request.pool(),
                                              "set owner and caps of containers"));
    ROS2S_CO_TRY(check_label("label", request.label(), served.report));
    ROS2S_CO_TRY_ASSIGN(const Records all, co_await used.containers(served.call));
    const object::ContainerRecord* const found = with_label(all, request.label());
    if (found == nullptr) co_return no_container(served, request.pool(), request.label());
    used.turn.end();
    object::ContainerChange change;
    if (request.has_owner()) change.owner = request.owner();
    if (request.has_cap_bytes()) change.bytes = request.cap_bytes();
    if (request.has_cap_values()) change.values = request.cap_values();
    ROS2S_CO_TRY_ASSIGN(const auto now,
                        co_await state_.parts.pools.set_container(
                            served.call, request.pool(), found->id, change, served.report));
    state_.audit(served, AuditAction::administer,
                 {.pool = request.pool(), .container = request.label()},
                 fmt::format("set the container {}/{}: owner '{}', caps {} bytes, {} values",
                             request.pool(), request.label(), now.properties.owner,
                             now.properties.caps.bytes, now.properties.caps.values));
    encode(now, *reply.mutable_container());
    co_return Result<>{};
}

Task<Result<>> ContainerService::destroy(Served& served, const v1::DestroyContainerRequest& request,
                                         v1::DestroyContainerReply&) {
    ROS2S_CO_TRY(check_label("label", request.label(), served.report));
    const capability::Use destroying{
        .rights = rights::Right::destroy, .directories = false, .container = {request.label()}};
    // A delegated DPU finds the stored reply with any capability for the container. The owner of a
    // container that is gone gets no capability to destroy it.
    const bool repeated = request.change().repeated();
    capability::Use first = destroying;
    if (repeated) first.rights = {};
    ROS2S_CO_TRY_ASSIGN(UsedPool used,
                        co_await find_pool(state_, served, request.pool(), std::move(first)));
    ROS2S_CO_TRY_ASSIGN(const Records all, co_await used.containers(served.call));
    const object::ContainerRecord* const found = with_label(all, request.label());
    ROS2S_CO_TRY(name_change(served, request));
    used.turn.end();
    // Before the right is checked: an owner's right ends with the container, which is gone if this
    // was done. Only the subject that sent the first request finds its stored reply.
    const auto done = co_await look_for_answer(served, *used.store);
    if (done) {
        state_.audit(served, AuditAction::destroy,
                     {.pool = request.pool(), .container = request.label()},
                     fmt::format("destroyed the container {}/{} before (a repeated request)",
                                 request.pool(), request.label()));
    }
    if (done || done.error().code != Code::not_found) co_return done;
    ROS2S_CO_TRY(state_.permit(served, rights::Right::destroy,
                               container_of(request.pool(), request.label(), found)));
    if (found == nullptr) co_return no_container(served, request.pool(), request.label());
    const session::Mounts* const mounts = state_.parts.mounts;
    if (mounts != nullptr && mounts->in_use(request.pool(), request.label())) {
        co_return served.report.fail(Code::busy, "container '{}' is mounted; unmount it first",
                                     request.label());
    }
    if (repeated) {
        ROS2S_CO_TRY_ASSIGN(used.store, co_await state_.parts.pools.store_for(
                                            served.call, served.subject, request.pool(), destroying,
                                            served.report));
    }
    ROS2S_CO_TRY(co_await used.store->destroy_container(served.call, found->id));
    state_.audit(served, AuditAction::destroy,
                 {.pool = request.pool(), .container = request.label()},
                 fmt::format("destroyed the container {}/{} ({})", request.pool(), request.label(),
                             found->id.uuid.to_string()));
    co_return Result<>{};
}

}  // namespace ros2s::control
