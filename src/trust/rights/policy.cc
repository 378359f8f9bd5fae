#include "policy.h"

#include <algorithm>

namespace ros2s::rights {

Policy Policy::next(Parties parties) const {
    Policy next(std::move(parties), epoch_ + 1);
    next.ends_ = ends_;
    return next;
}

Policy Policy::renewed(const std::string& pool, Time until) const {
    Policy same = *this;
    same.ends_.insert_or_assign(pool, until);
    return same;
}

Time Policy::end_of(std::string_view pool) const {
    const auto end = ends_.find(pool);
    return end == ends_.end() ? Time::max() : end->second;
}

const SubjectParty* Policy::subject(std::string_view subject) const {
    const auto found = parties_->subjects.find(subject);
    return found == parties_->subjects.end() ? nullptr : &found->second;
}

const TenantParty* Policy::tenant(std::string_view pool, std::string_view name) const {
    const auto found = parties_->tenants.find({std::string(pool), std::string(name)});
    return found == parties_->tenants.end() ? nullptr : &found->second;
}

bool Policy::covers(const Policy& earlier, std::string_view subject, std::string_view pool) const {
    const SubjectParty* const before = earlier.subject(subject);
    if (before == nullptr) return true;
    if (principal(subject, pool).users != earlier.principal(subject, pool).users) return false;
    const SubjectParty* const now = this->subject(subject);
    const std::span<const Grant> grants = now == nullptr ? std::span<const Grant>() : now->grants;
    return std::ranges::all_of(
        before->grants, [&](const Grant& each) { return each.pool != pool || give(grants, each); });
}

std::string Policy::owner_of(std::string_view subject, const SubjectParty* party,
                             std::string_view pool) const {
    if (party != nullptr) {
        const auto its = party->tenants.find(pool);
        if (its != party->tenants.end()) return tenant(pool, its->second)->owner;
        if (party->ended.contains(pool)) return {};
    }
    const bool owns = parties_->subjects_own && !parties_->administrators.contains(subject);
    return owns ? std::string(subject) : std::string();
}

Principal Policy::principal(std::string_view subject, std::string_view pool) const {
    const SubjectParty* const party = this->subject(subject);
    Principal principal{.subject = std::string(subject), .owner = owner_of(subject, party, pool)};
    if (party == nullptr) return principal;
    const auto its = party->tenants.find(pool);
    if (its != party->tenants.end()) principal.tenant = its->second;
    auto users = party->users.find(pool);
    if (users == party->users.end()) users = party->users.find("");
    if (users != party->users.end()) principal.users = users->second;
    return principal;
}

Principal Policy::holder(std::string_view subject,
                         std::shared_ptr<const VerifiedCapability> shown) const {
    const TenantParty* const its = tenant(shown->pool, shown->last.tenant);
    return {.subject = std::string(subject),
            .tenant = shown->last.tenant,
            .owner = its == nullptr ? std::string() : its->owner,
            .capability = std::move(shown)};
}

}  // namespace ros2s::rights
