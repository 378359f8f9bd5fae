#include "lease_service.h"

#include <fmt/format.h>

#include <algorithm>

#include "fields.h"
#include "name_turn.h"

namespace ros2s::control {
namespace {

constexpr size_t holder_bytes_max = 64;

uint64_t nanoseconds_of(Duration time) { return static_cast<uint64_t>(time.count()); }

void show(const session::Session& session, v1::LeaseHolder& into) {
    into.set_tenant(session.tenant_name());
    into.set_from(session.request.from);
    into.set_program(session.request.program);
    into.set_session(session.id.value);
}

}  // namespace

bool LeaseService::is_seen(const Served& served, const std::string& pool, uint64_t tenant) {
    return state_.is_administrator(served) ||
           state_.parts.sessions.account_of(served.subject, pool)->number == tenant;
}

std::vector<LeaseService::Seen> LeaseService::of_hosts(const Served& served,
                                                       std::string_view pool) {
    session::Mounts& mounts = *state_.parts.mounts;
    const Time now = state_.parts.reactor.now();
    std::vector<Seen> all;
    for (const session::Mounts::Lender& each : mounts.lenders()) {
        if (each.pool != pool || !is_seen(served, each.pool, each.session.tenant)) continue;
        Seen& seen = all.emplace_back();
        seen.evict = [&mounts, id = each.id] { return mounts.evict(id); };
        v1::LeaseHolder& shown = seen.shown;
        show(each.session, shown);
        shown.set_holder(std::to_string(each.id.value));
        shown.set_container(each.container);
        shown.set_for_ns(nanoseconds_of(now - each.leases.since()));
        shown.set_nodes(each.leases.nodes());
        shown.set_recalls(each.leases.recalls());
        if (shown.recalls() > 0) {
            shown.set_recalled_for_ns(nanoseconds_of(now - each.leases.recalled()));
        }
    }
    return all;
}

Task<Result<std::vector<LeaseService::Seen>>> LeaseService::of_pool(Served& served,
                                                                    std::string pool) {
    std::vector<Seen> all;
    object::LeaseTable* const leases = state_.parts.pools.leases(pool);
    object::ObjectStore* const store = state_.parts.pools.find(pool);
    if (leases == nullptr || store == nullptr) co_return all;
    ROS2S_CO_TRY_ASSIGN(const auto containers, co_await store->list_containers(served.call));
    const Time now = state_.parts.reactor.now();
    for (const object::LeaseHolder& each : leases->holders()) {
        const session::Session* const session = state_.parts.sessions.look({each.session});
        const bool is_shown = session != nullptr ? is_seen(served, pool, session->tenant)
                                                 : state_.is_administrator(served);
        const auto container =
            std::ranges::find(containers, each.name.container, &object::ContainerRecord::id);
        if (!is_shown || container == containers.end()) continue;
        Seen& seen = all.emplace_back();
        seen.evict = [leases, name = each.name] { return leases->evict(name); };
        v1::LeaseHolder& shown = seen.shown;
        if (session != nullptr) show(*session, shown);
        shown.set_holder(each.name.client.to_string());
        shown.set_container(container->properties.label);
        shown.set_for_ns(nanoseconds_of(now - each.since));
        shown.set_nodes(each.nodes);
        shown.set_recalls(each.recalls);
        if (each.recalls > 0) shown.set_recalled_for_ns(nanoseconds_of(now - each.recalled));
        shown.set_ends(each.is_cut);
    }
    co_return all;
}

Task<Result<std::vector<LeaseService::Seen>>> LeaseService::find(Served& served, std::string pool,
                                                                 std::string container) {
    ROS2S_CO_TRY(check_label("pool", pool, served.report));
    if (!container.empty()) ROS2S_CO_TRY(check_label("container", container, served.report));
    ROS2S_CO_TRY(co_await state_.wait_for_rights(served, pool));
    if (!state_.is_administrator(served)) ROS2S_CO_TRY(state_.permit(served, pool));
    if (!state_.parts.pools.has(pool)) {
        co_return served.report.fail(Code::not_found, "there is no pool '{}' here", pool);
    }
    served.call.tenant = state_.parts.sessions.account_of(served.subject, pool)->number;
    NameTurn turn(state_, served.call.tenant);
    ROS2S_CO_TRY(co_await turn.begin(served.call));
    std::vector<Seen> all;
    if (state_.parts.mounts != nullptr) {
        all = of_hosts(served, pool);
    } else {
        ROS2S_CO_TRY_ASSIGN(all, co_await of_pool(served, pool));
    }
    turn.charge(admission::cost_ns_of_entries(all.size()));
    if (!container.empty()) {
        std::erase_if(all, [&](const Seen& each) { return each.shown.container() != container; });
    }
    co_return all;
}

Task<Result<>> LeaseService::list(Served& served, const v1::ListLeasesRequest& request,
                                  v1::ListLeasesReply& reply) {
    ROS2S_CO_TRY_ASSIGN(std::vector<Seen> all,
                        co_await find(served, request.pool(), request.container()));
    for (Seen& each : all) reply.add_holders()->Swap(&each.shown);
    const Time now = state_.parts.reactor.now();
    const auto bar = [&](std::string name, Time until) {
        v1::BarredTenant& into = *reply.add_barred();
        into.set_tenant(std::move(name));
        into.set_remaining_ns(nanoseconds_of(until - now));
    };
    if (state_.parts.mounts != nullptr) {
        for (const auto& [tenant, until] : state_.parts.mounts->barred()) {
            const auto account = state_.parts.sessions.accounts().find(tenant);
            if (account == nullptr || !is_seen(served, request.pool(), tenant)) continue;
            bar(account->name, until);
        }
        co_return Result<>{};
    }
    const object::LeaseTable* const leases = state_.parts.pools.leases(request.pool());
    if (leases == nullptr) co_return Result<>{};
    const auto sessions = state_.parts.sessions.all();
    for (const auto& [owner, until] : leases->barred()) {
        const auto found = std::ranges::find(sessions, owner, &session::Session::owner);
        if (found != sessions.end() && is_seen(served, request.pool(), (*found)->tenant)) {
            bar((*found)->tenant_name(), until);
        } else if (found == sessions.end() && state_.is_administrator(served)) {
            bar(owner.to_string(), until);  // its sessions have ended
        }
    }
    co_return Result<>{};
}

Task<Result<>> LeaseService::evict(Served& served, const v1::EvictHolderRequest& request,
                                   v1::EvictHolderReply&) {
    ROS2S_CO_TRY(check_label("container", request.container(), served.report));
    ROS2S_CO_TRY(check_size("holder", request.holder(), holder_bytes_max, served.report));
    ROS2S_CO_TRY_ASSIGN(const std::vector<Seen> all,
                        co_await find(served, request.pool(), request.container()));
    size_t evicted = 0;
    for (const Seen& each : all) {
        if (each.shown.holder() == request.holder() && each.evict()) ++evicted;
    }
    if (evicted == 0) {
        co_return served.report.fail(
            Code::not_found,
            "there is no holder '{}' of leases in {}/{}; `ros2store leases` lists them",
            request.holder(), request.pool(), request.container());
    }
    state_.audit(served, AuditAction::administer,
                 {.pool = request.pool(), .container = request.container()},
                 fmt::format("ended the leases of the holder {} in {}/{}", request.holder(),
                             request.pool(), request.container()));
    co_return Result<>{};
}

}  // namespace ros2s::control
