#include "decide.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <span>

namespace ros2s::rights {
namespace {

using Scope = Decision::Scope;

constexpr std::array<std::string_view, 14> why_texts{
    "granted",
    "owned",
    "not granted",
    "the policy is over",
    "its tenant was revoked or has expired",
    "there is no such tenant",
    "its tenant was changed since",
    "by the engine's clock, capabilities of its tenant are valid that were revoked: set the clock "
    "right or, if it is right now, run `ros2store tenant set` for the tenant, which ends all of "
    "its capabilities; its programs get new ones",
    "it was revoked",
    "it is out of its time",
    "the capability lacks it",
    "it is for a DPU, and the sender is not one",
    "it is another tenant's",
    "an engine cannot check directories",
};

constexpr std::array<std::string_view, 6> wanted_names{"see the pool", "see",    "read",
                                                       "write",        "create", "destroy"};

constexpr bool gives(Rights rights, Wanted what) {
    switch (what) {
        case Wanted::see_pool:
        case Wanted::see: return true;
        case Wanted::read: return rights.has(Right::read);
        case Wanted::write: return rights.has(Right::write);
        case Wanted::create: return rights.has(Right::create);
        case Wanted::destroy: return rights.has(Right::destroy);
    }
    return false;
}

Decision none(Why why) { return {.why = why}; }
Decision whole(bool read_only, Why why = Why::granted) {
    return {.scope = Scope::whole, .read_only = read_only, .why = why};
}

// The rights of some grants in one container.
struct Match {
    bool any = false;
    Rights whole;
    std::vector<access::Subtree> read, written;

    void add(std::span<const Grant> grants, const Container& container, Wanted what) {
        for (const Grant& each : grants) {
            if (each.pool != container.pool) continue;
            if (what != Wanted::see_pool && !each.container.has(container.label)) continue;
            any = true;
            if (each.path.empty()) {
                whole.add(each.rights);
            } else if (each.rights.has(Right::write)) {
                written.push_back({.path = each.path, .writable = true});
            } else if (each.rights.has(Right::read)) {
                read.push_back({.path = each.path});
            }
        }
    }
};

Decision decide_on(Match found, Wanted what) {
    if (what == Wanted::see || what == Wanted::see_pool) {
        if (!found.any) return none(Why::not_granted);
        return whole(true);
    }
    if (what == Wanted::create || what == Wanted::destroy) {
        return gives(found.whole, what) ? whole(false) : none(Why::not_granted);
    }
    if (found.whole.has(Right::write)) return whole(false);
    const bool writes = !found.written.empty();
    const bool reads_all = found.whole.has(Right::read);
    if (reads_all && (!writes || what == Wanted::read)) return whole(!writes);
    std::vector<access::Subtree> subtrees = std::move(found.read);
    std::ranges::move(found.written, std::back_inserter(subtrees));
    if (reads_all) subtrees.push_back({});  // all of it, to be read
    if (subtrees.empty()) return none(Why::not_granted);
    return {.scope = Scope::subtrees,
            .read_only = !writes,
            .subtrees = std::move(subtrees),
            .why = Why::granted};
}

// An owner has every right in what exists. What does not exist, and the pool, have no owner.
bool owns(const Principal& principal, const Container& container, Wanted what) {
    return what != Wanted::create && what != Wanted::see_pool && !container.owner.empty() &&
           principal.owner == container.owner;
}

// The part of the tenant's rights that the capability has.
Decision decide_by_capability(const Policy& policy, const Principal& principal,
                              const Container& container, Wanted what, Moment moment) {
    const VerifiedCapability& shown = *principal.capability;
    const capability::Use& use = shown.last.use;
    const TenantParty* const tenant = policy.tenant(container.pool, principal.tenant);
    const Why why = check_holder(policy, principal, moment);
    if (why != Why::granted) return none(why);
    const bool is_there = shown.pool == container.pool &&
                          (what == Wanted::see_pool || use.container.has(container.label));
    if (!is_there) return none(Why::capability_lacks);
    const bool is_owner = owns(principal, container, what);
    // With the right to create a container, its tenant can use the one that it has made.
    const bool has_made = is_owner && use.rights.has(Right::create) && !use.directories;
    if (has_made) return whole(false, Why::owned);
    if (!gives(use.rights, what)) return none(Why::capability_lacks);
    const bool writes = use.rights.has(Right::write) || what == Wanted::destroy;
    if (is_owner) return whole(!writes, Why::owned);
    if (use.directories && what == Wanted::destroy) return none(Why::capability_lacks);
    Match found;
    found.add(tenant->grants, container, what);
    Decision decision = decide_on(std::move(found), what);
    if (writes || what == Wanted::create) return decision;
    decision.read_only = true;
    for (access::Subtree& each : decision.subtrees) each.writable = false;
    return decision;
}

Decision decide_by_subject(const Policy& policy, const Principal& principal,
                           const Container& container, Wanted what) {
    if (owns(principal, container, what)) return whole(false, Why::owned);
    const SubjectParty* const party = policy.subject(principal.subject);
    Match found;
    if (party != nullptr) found.add(party->grants, container, what);
    found.add(principal.handed_over, container, what);
    Decision decision = decide_on(std::move(found), what);
    if (decision.is_none() && party != nullptr && party->ended.contains(container.pool)) {
        decision.why = Why::tenant_ended;
    }
    return decision;
}

}  // namespace

Wanted wanted(Right right) noexcept {
    switch (right) {
        case Right::read: return Wanted::read;
        case Right::write: return Wanted::write;
        case Right::create: return Wanted::create;
        case Right::destroy: break;
    }
    return Wanted::destroy;
}

std::string_view to_string(Wanted what) noexcept { return wanted_names[static_cast<size_t>(what)]; }

std::string_view to_string(Why why) noexcept { return why_texts[static_cast<size_t>(why)]; }

std::string Decision::text() const {
    if (scope == Scope::none) return fmt::format("none: {}", to_string(why));
    if (scope == Scope::whole) {
        return fmt::format("whole{}{}", read_only ? ", read only" : "",
                           why == Why::owned ? ", owned" : "");
    }
    std::string text;
    for (const access::Subtree& each : subtrees) {
        text += fmt::format("{}{} ({})", text.empty() ? "" : ", ",
                            each.path.empty() ? "/" : each.path, each.writable ? "write" : "read");
    }
    return text;
}

Why check_capability(const Policy& policy, const VerifiedCapability& capability, Moment moment) {
    const capability::Capability &first = capability.first, &last = capability.last;
    const TenantParty* const party = policy.tenant(capability.pool, last.tenant);
    if (party == nullptr) return Why::unknown_tenant;
    if (!party->is_active) return Why::tenant_ended;
    if (party->generation != last.generation) return Why::tenant_changed;
    if (moment.wall && *moment.wall < party->clock_min) return Why::clock_behind;
    if (party->revoked_capabilities.contains(first.id) ||
        party->revoked_capabilities.contains(last.id) ||
        std::ranges::find(party->revoked_programs, first.holder) != party->revoked_programs.end()) {
        return Why::capability_revoked;
    }
    return !moment.wall || last.is_in_time(*moment.wall) ? Why::granted
                                                         : Why::capability_out_of_time;
}

Why check_holder(const Policy& policy, const Principal& principal, Moment moment) {
    const VerifiedCapability& shown = *principal.capability;
    const Why why = check_capability(policy, shown, moment);
    if (why != Why::granted) return why;
    if (shown.last.depth > 1) {
        return policy.is_delegate(principal.subject) ? Why::granted : Why::capability_for_dpu;
    }
    if (policy.principal(principal.subject, shown.pool).tenant != principal.tenant) {
        return Why::capability_others;
    }
    return shown.last.use.directories ? Why::capability_directories : Why::granted;
}

bool give(std::span<const Grant> grants, const std::string& pool, const capability::Use& use) {
    if (!use.directories) {
        return give(grants, {.pool = pool, .container = use.container, .rights = use.rights});
    }
    if (use.container.is_prefix() || !Rights(Right::write).has(use.rights)) return false;
    return std::ranges::all_of(all_rights, [&](Right right) {
        return !use.rights.has(right) || std::ranges::any_of(grants, [&](const Grant& each) {
            return each.rights.has(right) && each.is_for(pool, use.container.text);
        });
    });
}

Decision decide(const Policy& policy, const Principal& principal, const Container& container,
                Wanted what, Moment moment) {
    Decision decision = policy.is_over(container.pool, moment.now) ? none(Why::policy_over)
                        : principal.capability
                            ? decide_by_capability(policy, principal, container, what, moment)
                            : decide_by_subject(policy, principal, container, what);
    decision.epoch = policy.epoch();
    return decision;
}

}  // namespace ros2s::rights
