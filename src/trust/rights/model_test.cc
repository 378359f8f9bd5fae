// The model of the tests in this directory.
#include "test_support/model.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "ros2s/rights/sources/capability.h"
#include "ros2s/rights/sources/settings.h"
#include "ros2s/rights/sources/tenants.h"
#include "ros2s/tenancy/capability_rights.h"

namespace ros2s::rights::test {
namespace {

constexpr WallTime made_at{std::chrono::seconds(1'800'000'000)};
constexpr Time made_now{std::chrono::seconds(5000)};
constexpr Duration capability_life = std::chrono::minutes(30);
constexpr std::array<Wanted, 6> all_wanted{Wanted::see_pool, Wanted::see,    Wanted::read,
                                           Wanted::write,    Wanted::create, Wanted::destroy};

session::AccessTable parsed(const session::AccessTable::Settings& settings) {
    Report report;
    auto table = session::AccessTable::parse(settings, "settings", report);
    EXPECT_TRUE(table) << report.text();
    return std::move(*table);
}

std::map<std::string, tenancy::SeenTenants> seen_by_engine(const Model& model, WallTime now) {
    std::map<std::string, tenancy::SeenTenants> seen;
    for (const auto& [pool, tenants] : model.tenants) {
        for (const auto& [name, tenant] : tenants) {
            seen[pool][name] = {.tenant = tenant, .active = tenant.is_active(now)};
        }
    }
    return seen;
}

}  // namespace

Uuid numbered(uint8_t number) {
    Uuid id;
    id.bytes[0] = number;
    return id;
}

capability::Use use_of(uint8_t rights, std::string container, bool directories) {
    return {.rights = rights, .directories = directories, .container = std::move(container)};
}

tenancy::Tenant& Model::add_tenant(const std::string& pool, const std::string& name,
                                   config::Entries settings) {
    tenancy::Tenant tenant{.name = name, .settings = std::move(settings)};
    Report report;
    EXPECT_TRUE(tenancy::parse_settings(tenant, "the model", report)) << report.text();
    return tenants[pool].insert_or_assign(name, std::move(tenant)).first->second;
}

void Model::add_capability(const std::string& name, const tenancy::Tenant& tenant,
                           capability::Use use, uint8_t depth) {
    const auto number = static_cast<uint8_t>(2 * capabilities.size() + 1);
    capability::Capability first{.depth = 1,
                                 .use = use,
                                 .tenant = tenant.name,
                                 .id = numbered(number),
                                 .holder = {number},
                                 .not_before = made_at,
                                 .expires = made_at + capability_life,
                                 .generation = tenant.generation};
    capability::Capability last = first;
    last.depth = depth;
    if (depth > 1) last.id = numbered(static_cast<uint8_t>(number + 1));
    if (depth > 1) first.use.directories = false;
    capabilities[name] = {first, last};
}

Request Request::of(std::string_view who, std::string_view what, std::string_view where,
                    Duration later) {
    Request request{.later = later};
    const size_t by = who.find(" by ");
    request.subject = who.substr(0, by);
    if (by != who.npos) request.capability = who.substr(by + 4);
    const auto wanted =
        std::ranges::find(all_wanted, what, [](Wanted each) { return to_string(each); });
    EXPECT_NE(wanted, all_wanted.end()) << what;
    if (wanted != all_wanted.end()) request.what = *wanted;
    const size_t slash = where.find('/');
    request.pool = where.substr(0, slash);
    if (slash == where.npos) return request;
    const std::string_view container = where.substr(slash + 1);
    const size_t at = container.find('@');
    request.label = container.substr(0, at);
    if (at != container.npos) request.owner = container.substr(at + 1);
    return request;
}

std::string Request::text() const {
    return fmt::format("{}{}{} wants to {} {}/{} of '{}', {:.9f} s later", subject,
                       capability.empty() ? "" : " by ", capability, to_string(what), pool, label,
                       owner, std::chrono::duration<double>(later).count());
}

// ---- decide() -------------------------------------------------------------------------------

NewDecider::NewDecider(const Model& model, PlantedBug bug)
    : model_(model), bug_(bug), policy_(made({})) {}

Policy NewDecider::made(Duration later) const {
    const WallTime wall = made_at + later;
    Parties parties;
    add_settings(parties, parsed(model_.access));
    if (model_.is_engine) {
        parties.delegates = {model_.delegates.begin(), model_.delegates.end()};
        parties.subjects_own = true;
        for (const auto& [pool, tenants] : model_.tenants) add_file(parties, pool, tenants, wall);
    } else {
        for (const auto& [pool, tenants] : seen_by_engine(model_, wall)) {
            add_pushed(parties, pool, tenants);
        }
    }
    if (bug_ == PlantedBug::wide_pattern) {
        for (auto& [name, subject] : parties.subjects) {
            for (Grant& each : subject.grants) each.container.is_prefix = true;
        }
    }
    if (bug_ == PlantedBug::other_pool) {
        for (auto& [name, subject] : parties.subjects) {
            for (Grant& each : subject.grants) each.pool = "p";
        }
    }
    Policy policy(std::move(parties), policy_.epoch() + 1);
    for (const auto& [pool, valid] : model_.valid_for) {
        policy = policy.renewed(pool, made_now + valid);
    }
    for (const auto& [pool, tenants] : model_.tenants) {
        for (const auto& [name, tenant] : tenants) {
            if (!tenant.is_active(wall) || !tenant.until) continue;
            const Time last = made_now + (*tenant.until - made_at) - Duration(1);
            policy = policy.renewed(pool, std::min(policy.end_of(pool), last));
        }
    }
    return policy;
}

Decision NewDecider::decide(const Request& request) {
    Time now = made_now + request.later;
    if (bug_ == PlantedBug::used_past_its_end) {
        now = Time::min();
    } else if (policy_.is_over(request.pool, now)) {
        policy_ = made(request.later);  // as its owner does. It may be over at once
    }
    Principal principal = policy_.principal(request.subject, request.pool);
    if (!request.capability.empty()) {
        const Shown& shown = model_.capabilities.at(request.capability);
        principal.tenant = shown.last.tenant;
        const TenantParty* const tenant = policy_.tenant(request.pool, principal.tenant);
        principal.owner = tenant == nullptr ? "" : tenant->owner;
        principal.capability = verified(request.pool, shown.first, shown.last);
    }
    const auto handed = model_.handed_over.find({request.pool, principal.tenant});
    const bool mounts = request.what == Wanted::read || request.what == Wanted::write;
    if (mounts && !model_.is_engine && handed != model_.handed_over.end()) {
        for (const capability::Use& use : handed->second) {
            if (!use.directories) principal.handed_over.push_back(grant_of(request.pool, use));
        }
    }
    const Container container{.pool = request.pool, .label = request.label, .owner = request.owner};
    return rights::decide(policy_, principal, container, request.what,
                          {.now = now, .wall = made_at + request.later});
}

Outcome NewDecider::outcome(const Request& request) {
    Decision decision = decide(request);
    const bool mounts = request.what == Wanted::read || request.what == Wanted::write;
    if (!model_.is_engine && mounts && decision.why != Why::owned) {
        if (decision.is_none()) return {};
        return {.allowed = true,
                .read_only = decision.read_only,
                .subtrees = std::move(decision.subtrees)};
    }
    const bool checks_directories = !request.capability.empty() &&
                                    model_.capabilities.at(request.capability).last.use.directories;
    const bool in_directories = checks_directories && decision.scope == Decision::Scope::subtrees &&
                                (request.what == Wanted::read || !decision.read_only);
    return {.allowed = decision.is_whole_for(request.what) || in_directories};
}

// ---- the earlier deciders -------------------------------------------------------------------

session::AccessTable EarlierDecider::table(Duration later) const {
    tenancy::Policy policy{.access = parsed(model_.access)};
    const auto seen = seen_by_engine(model_, made_at + later);
    if (!model_.is_engine) return tenancy::with_tenants(policy, seen).access;
    for (const auto& [pool, tenants] : seen) {  // LivePolicy
        for (const auto& [name, each] : tenants) {
            if (!each.active) tenancy::remove_rights(policy.access, pool, each.tenant);
        }
    }
    return policy.access;
}

// The calls of a DPU's control plane.
Outcome EarlierDecider::at_dpu(const Request& request) {
    const std::string &who = request.subject, &pool = request.pool, &label = request.label;
    session::RightsLeases leases(world_.core());
    for (const auto& [name, valid] : model_.valid_for) {
        leases.renew(name, world_.core().now() + valid - request.later);
    }
    if (!leases.holds(pool)) return {};  // it waits, and is then refused
    const session::AccessTable access = table(request.later);
    const auto seen = seen_by_engine(model_, made_at + request.later);
    const tenancy::Tenant* const tenant =
        seen.contains(pool) ? tenancy::find_tenant(seen.at(pool), who) : nullptr;
    const bool owns =
        tenant != nullptr && !request.owner.empty() && tenant->owner() == request.owner;
    const auto has_capability = [&](uint8_t rights) {
        const auto handed = model_.handed_over.find({pool, tenant == nullptr ? "" : tenant->name});
        if (handed == model_.handed_over.end()) return false;
        return std::ranges::any_of(handed->second, [&](const capability::Use& use) {
            return use.covers(use_of(rights, label));
        });
    };
    switch (request.what) {
        case Wanted::see_pool: return {access.sees_pool(who, pool)};
        case Wanted::see: return {owns || access.sees(who, pool, label)};
        case Wanted::create: return {access.allows(who, Right::create, pool, label)};
        case Wanted::destroy: return {owns || access.allows(who, Right::destroy, pool, label)};
        case Wanted::read:
        case Wanted::write: break;
    }
    // mount_grant(), which knows no owner.
    const auto may = [&](Right right, uint8_t of_capability) {
        return access.allows(who, right, pool, label) || has_capability(of_capability);
    };
    if (may(Right::write, capability::right_write)) return {true};
    auto subtrees = access.subtrees_of(who, pool, label);
    const bool writes = std::ranges::any_of(subtrees, &access::Subtree::writable);
    if (may(Right::read, capability::right_read)) {
        if (!writes || request.what == Wanted::read) return {true, !writes};
        subtrees.push_back({});
    } else if (subtrees.empty()) {
        return {};
    }
    return {true, !writes, std::move(subtrees)};
}

// What IssuedCapabilities and StoreRouter say.
bool EarlierDecider::at_engine(const Request& request) const {
    const std::string &who = request.subject, &pool = request.pool, &label = request.label;
    const WallTime now = made_at + request.later;
    const session::AccessTable access = table(request.later);
    const auto of_pool = model_.tenants.find(pool);
    const tenancy::TenantsByName none;
    const tenancy::TenantsByName& tenants =
        of_pool == model_.tenants.end() ? none : of_pool->second;
    const tenancy::Tenant* const own = tenancy::tenant_of(tenants, who);
    const Right right = request.what == Wanted::read     ? Right::read
                        : request.what == Wanted::write  ? Right::write
                        : request.what == Wanted::create ? Right::create
                                                         : Right::destroy;
    if (request.capability.empty()) {
        if (request.what == Wanted::see_pool) return access.sees_pool(who, pool);
        std::optional<std::string> owner = who;
        if (own != nullptr)
            owner = own->is_active(now) ? std::optional(own->owner()) : std::nullopt;
        const bool owns = !request.owner.empty() && owner == request.owner;
        if (owns && request.what != Wanted::create) return true;
        if (request.what == Wanted::see) return access.sees(who, pool, label);
        return access.allows(who, right, pool, label);
    }
    const Shown& shown = model_.capabilities.at(request.capability);
    const capability::Capability& last = shown.last;
    const auto found = tenants.find(last.tenant);
    if (found == tenants.end() || !found->second.is_active(now)) return false;
    const tenancy::Tenant& tenant = found->second;
    if (tenant.generation != last.generation || !last.is_in_time(now)) return false;
    if (tenancy::is_revoked(tenant, shown.first, last)) return false;
    if (last.depth > 1 && std::ranges::find(model_.delegates, who) == model_.delegates.end()) {
        return false;
    }
    const bool is_its = own != nullptr && own->name == last.tenant && !last.use.directories;
    if (last.depth == 1 && !is_its) return false;
    const bool is_of_tenant = tenant.owner() == request.owner;
    if (request.what == Wanted::see) {
        return last.use.has_container(label) && (is_of_tenant || tenancy::sees(tenant, label));
    }
    const auto bit = static_cast<uint8_t>(1U << static_cast<unsigned>(right));
    const bool allows = last.use.covers(use_of(bit, label, true));
    if (request.what == Wanted::create) return allows;
    if (is_of_tenant && last.use.covers(use_of(capability::right_create, label))) return true;
    if (!allows) return false;
    return is_of_tenant || tenancy::gives(tenant, use_of(bit, label, last.use.directories));
}

Outcome EarlierDecider::outcome(const Request& request) {
    if (!model_.is_engine) return at_dpu(request);
    return {.allowed = at_engine(request)};
}

}  // namespace ros2s::rights::test
