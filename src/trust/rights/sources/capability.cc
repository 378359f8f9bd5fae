#include "capability.h"

#include <algorithm>

namespace ros2s::rights {
namespace {

constexpr std::pair<uint8_t, Right> rights_by_bit[] = {
    {capability::right_read, Right::read},
    {capability::right_write, Right::write},
    {capability::right_create, Right::create},
    {capability::right_destroy, Right::destroy},
};

}  // namespace

Grant grant_of(const std::string& pool, const capability::Use& use) {
    Grant grant{.pool = pool, .container = {.label = use.container}, .path = {}, .rights = {}};
    if (grant.container.label.ends_with('*')) {
        grant.container.label.pop_back();
        grant.container.is_prefix = true;
    }
    for (const auto& [bit, right] : rights_by_bit) {
        if ((use.rights & bit) != 0) grant.rights.add(right);
    }
    return grant;
}

VerifiedCapability verified(const std::string& pool, const capability::Capability& first,
                            const capability::Capability& last) {
    return {.grant = grant_of(pool, last.use),
            .directories = last.use.directories,
            .links = last.depth,
            .generation = last.generation,
            .first = first.id,
            .last = last.id,
            .program = first.holder,
            .begins = last.not_before,
            .ends = last.expires};
}

Principal holder_of(const Policy& policy, const std::string& subject, const std::string& pool,
                    const capability::Capability& first, const capability::Capability& last) {
    const TenantParty* const tenant = policy.tenant(pool, last.tenant);
    return {.subject = subject,
            .tenant = last.tenant,
            .owner = tenant == nullptr ? std::string() : tenant->owner,
            .capability = verified(pool, first, last)};
}

bool give(std::span<const Grant> grants, const std::string& pool, const capability::Use& use) {
    const Grant wanted = grant_of(pool, use);
    if (!use.directories) return give(grants, wanted);
    if (wanted.container.is_prefix) return false;
    return std::ranges::all_of(all_rights, [&](Right right) {
        if (!wanted.rights.has(right)) return true;
        if (right == Right::create || right == Right::destroy) return false;
        return std::ranges::any_of(grants, [&](const Grant& each) {
            return each.rights.has(right) && each.is_for(pool, wanted.container.label);
        });
    });
}

}  // namespace ros2s::rights
