// The model of the tests in this directory.
#include "test_support/model.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "ros2s/base/text_parts.h"
#include "ros2s/rights/sources/tenants.h"

namespace ros2s::rights::test {
namespace {

constexpr WallTime made_at{std::chrono::seconds(1'800'000'000)};
constexpr Time made_now{std::chrono::seconds(5000)};
constexpr Duration capability_life = std::chrono::minutes(30);
constexpr std::array<Wanted, 6> all_wanted{Wanted::see_pool, Wanted::see,    Wanted::read,
                                           Wanted::write,    Wanted::create, Wanted::destroy};

Subjects parsed(const AccessSettings& settings) {
    Report report;
    auto subjects = parse_access(settings, "settings", report);
    EXPECT_TRUE(subjects) << report.text();
    return std::move(*subjects);
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

capability::Use use_of(Rights rights, std::string container, bool directories) {
    return {.rights = rights, .directories = directories, .container = {std::move(container)}};
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
    capabilities[name] = {.pool = {}, .first = first, .last = last};
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

PolicyDecider::PolicyDecider(const Model& model, PlantedBug bug)
    : model_(model), bug_(bug), policy_(made({})) {}

Policy PolicyDecider::made(Duration later) const {
    const WallTime wall = made_at + later;
    Parties parties{.subjects = parsed(model_.access)};
    if (model_.is_engine) {
        parties.delegates = {model_.delegates.begin(), model_.delegates.end()};
        parties.subjects_own = true;
        for (const auto& [pool, tenants] : model_.tenants) add_file(parties, pool, tenants, wall);
    } else {
        for (const auto& [pool, tenants] : seen_by_engine(model_, wall)) {
            add_pushed(parties, pool, tenants, true);
        }
    }
    if (bug_ == PlantedBug::wide_pattern) {
        for (auto& [name, subject] : parties.subjects) {
            for (Grant& each : subject.grants)
                each.container.text = std::string(each.container.label()) + '*';
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

Decision PolicyDecider::decide(const Request& request) {
    Time now = made_now + request.later;
    if (bug_ == PlantedBug::used_past_its_end) {
        now = Time::min();
    } else if (policy_.is_over(request.pool, now)) {
        policy_ = made(request.later);  // as its owner does. It may be over at once
    }
    Principal principal = policy_.principal(request.subject, request.pool);
    if (!request.capability.empty()) {
        VerifiedCapability shown = model_.capabilities.at(request.capability);
        shown.pool = request.pool;
        principal = policy_.holder(request.subject, std::make_shared<VerifiedCapability>(shown));
    }
    const auto handed = model_.handed_over.find({request.pool, principal.tenant});
    const bool mounts = request.what == Wanted::read || request.what == Wanted::write;
    if (mounts && !model_.is_engine && handed != model_.handed_over.end()) {
        for (const capability::Use& use : handed->second) {
            if (use.directories) continue;
            principal.handed_over.push_back(
                {.pool = request.pool, .container = use.container, .rights = use.rights});
        }
    }
    const Container container{.pool = request.pool, .label = request.label, .owner = request.owner};
    return rights::decide(policy_, principal, container, request.what,
                          {.now = now, .wall = made_at + request.later});
}

Outcome PolicyDecider::outcome(const Request& request) {
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
    return {.allowed = checks_directories ? decision.is_some_for(request.what)
                                          : decision.is_whole_for(request.what)};
}

// ---- the reference --------------------------------------------------------------------------

namespace {

struct Given {
    Right right;
    std::string pool, label, path;  // label: perhaps with '*'

    [[nodiscard]] bool has(const std::string& container) const {
        if (!label.ends_with('*')) return label == container;
        return container.starts_with(label.substr(0, label.size() - 1));
    }
};

// "pool/a*, pool/b/x"; in a tenant's settings without the pool.
void add(std::vector<Given>& all, Right right, const std::string& text, const std::string& pool) {
    for (const std::string& each : parts_of(text)) {
        const std::string place = pool.empty() ? each : pool + "/" + each;
        const size_t slash = place.find('/'), second = place.find('/', slash + 1);
        all.push_back({right, place.substr(0, slash),
                       place.substr(slash + 1, second == place.npos ? second : second - slash - 1),
                       second == place.npos ? "" : place.substr(second + 1)});
    }
}

std::vector<Given> given_by(const std::map<std::string, std::string, std::less<>>& settings,
                            const std::string& pool) {
    std::vector<Given> all;
    for (const Right right : all_rights) {
        const auto text = settings.find(to_string(right));
        if (text != settings.end()) add(all, right, text->second, pool);
    }
    return all;
}

bool is_of(const tenancy::Tenant& tenant, const std::string& who) {
    return std::ranges::find(tenant.subjects, who) != tenant.subjects.end();
}

// What the subject has in the pool by settings and, at a DPU, by its tenant.
std::vector<Given> given_to(const Model& model, const Request& request) {
    const WallTime now = made_at + request.later;
    std::vector<Given> all;
    const auto settings = model.access.find(request.subject);
    if (settings != model.access.end()) {
        all = given_by({settings->second.begin(), settings->second.end()}, "");
    }
    std::erase_if(all, [&](const Given& each) { return each.pool != request.pool; });
    const auto tenants = model.tenants.find(request.pool);
    if (tenants == model.tenants.end()) return all;
    for (const auto& [name, tenant] : tenants->second) {
        if (!is_of(tenant, request.subject)) continue;
        if (!tenant.is_active(now)) return {};
        if (model.is_engine) continue;
        const auto more = given_by({tenant.settings.begin(), tenant.settings.end()}, request.pool);
        all.insert(all.end(), more.begin(), more.end());
    }
    return all;
}

const tenancy::Tenant* own_tenant(const Model& model, const Request& request) {
    const auto tenants = model.tenants.find(request.pool);
    if (tenants == model.tenants.end()) return nullptr;
    for (const auto& [name, tenant] : tenants->second) {
        if (is_of(tenant, request.subject)) return &tenant;
    }
    return nullptr;
}

bool is_given(const std::vector<Given>& all, Right right, const std::string& label,
              bool also_a_directory = false) {
    return std::ranges::any_of(all, [&](const Given& each) {
        const bool is_right =
            each.right == right || (right == Right::read && each.right == Right::write);
        return is_right && each.has(label) && (also_a_directory || each.path.empty());
    });
}

bool is_seen(const std::vector<Given>& all, const std::string& label) {
    return std::ranges::any_of(all, [&](const Given& each) { return each.has(label); });
}

Right right_for(Wanted what) {
    switch (what) {
        case Wanted::read: return Right::read;
        case Wanted::write: return Right::write;
        case Wanted::create: return Right::create;
        default: return Right::destroy;
    }
}

}  // namespace

Outcome ReferenceDecider::at_dpu(const Request& request) const {
    const std::string &pool = request.pool, &label = request.label;
    const auto valid = model_.valid_for.find(pool);
    if (valid != model_.valid_for.end() && request.later > valid->second) return {};
    const std::vector<Given> given = given_to(model_, request);
    const tenancy::Tenant* tenant = own_tenant(model_, request);
    if (tenant != nullptr && !tenant->is_active(made_at + request.later)) tenant = nullptr;
    const bool owns =
        tenant != nullptr && !request.owner.empty() && tenant->owner() == request.owner;
    switch (request.what) {
        case Wanted::see_pool: return {!given.empty()};
        case Wanted::see: return {owns || is_seen(given, label)};
        case Wanted::create: return {is_given(given, Right::create, label)};
        case Wanted::destroy: return {owns || is_given(given, Right::destroy, label)};
        case Wanted::read:
        case Wanted::write: break;
    }
    // A mount, which knows no owner.
    const auto handed = model_.handed_over.find({pool, tenant == nullptr ? "" : tenant->name});
    const auto may = [&](Right right) {
        if (is_given(given, right, label)) return true;
        return handed != model_.handed_over.end() &&
               std::ranges::any_of(handed->second, [&](const capability::Use& use) {
                   return use.covers(use_of(right, label));
               });
    };
    if (may(Right::write)) return {true};
    std::vector<access::Subtree> subtrees;
    bool writes = false;
    for (const Right right : {Right::read, Right::write}) {
        for (const Given& each : given) {
            if (each.right != right || each.path.empty() || !each.has(label)) continue;
            subtrees.push_back({.path = each.path, .writable = right == Right::write});
            writes = writes || right == Right::write;
        }
    }
    if (may(Right::read)) {
        if (!writes || request.what == Wanted::read) return {true, !writes};
        subtrees.push_back({});
    } else if (subtrees.empty()) {
        return {};
    }
    return {true, !writes, std::move(subtrees)};
}

bool ReferenceDecider::at_engine(const Request& request) const {
    const std::string &who = request.subject, &label = request.label;
    const WallTime now = made_at + request.later;
    const tenancy::Tenant* const own = own_tenant(model_, request);
    const Right right = right_for(request.what);
    if (request.capability.empty()) {
        const std::vector<Given> given = given_to(model_, request);
        if (request.what == Wanted::see_pool) return !given.empty();
        std::string owner = who;
        if (own != nullptr) owner = own->is_active(now) ? own->owner() : "";
        const bool owns = !request.owner.empty() && owner == request.owner;
        if (owns && request.what != Wanted::create) return true;
        if (request.what == Wanted::see) return is_seen(given, label);
        return is_given(given, right, label);
    }
    const VerifiedCapability& shown = model_.capabilities.at(request.capability);
    const capability::Capability& last = shown.last;
    const auto tenants = model_.tenants.find(request.pool);
    if (tenants == model_.tenants.end() || !tenants->second.contains(last.tenant)) return false;
    const tenancy::Tenant& tenant = tenants->second.at(last.tenant);
    if (!tenant.is_active(now) || tenant.generation != last.generation) return false;
    if (!last.is_in_time(now) || now < tenant.clock_min) return false;
    for (const auto& [id, revoked] : tenant.revoked_capabilities) {
        if (id == shown.first.id || id == last.id) return false;
        if (revoked.program == shown.first.holder) return false;
    }
    const bool is_its = own == &tenant && !last.use.directories;
    const bool is_delegate = std::ranges::find(model_.delegates, who) != model_.delegates.end();
    if (last.depth > 1 ? !is_delegate : !is_its) return false;
    const std::vector<Given> given =
        given_by({tenant.settings.begin(), tenant.settings.end()}, request.pool);
    const bool is_of_tenant = tenant.owner() == request.owner;
    if (request.what == Wanted::see) {
        return last.use.container.has(label) && (is_of_tenant || is_seen(given, label));
    }
    const bool has_right = last.use.covers(use_of(right, label, true));
    if (request.what == Wanted::create) return has_right && is_given(given, right, label);
    if (is_of_tenant && last.use.covers(use_of(Right::create, label))) return true;
    if (!has_right) return false;
    if (is_of_tenant) return true;
    if (last.use.directories && right == Right::destroy) return false;
    return is_given(given, right, label, last.use.directories);
}

Outcome ReferenceDecider::outcome(const Request& request) const {
    if (!model_.is_engine) return at_dpu(request);
    return {.allowed = at_engine(request)};
}

}  // namespace ros2s::rights::test
