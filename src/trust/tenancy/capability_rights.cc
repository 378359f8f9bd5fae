#include "capability_rights.h"

#include <algorithm>

namespace ros2s::tenancy {

bool gives(const Tenant& tenant, const capability::Use& use) {
    session::Granted wanted{.label = use.container};
    if (wanted.label.ends_with('*')) {
        wanted.is_prefix = true;
        wanted.label.pop_back();
    }
    const auto given = [&](session::Right right) {
        return std::ranges::any_of(
            tenant.granted[static_cast<size_t>(right)], [&](const session::Granted& each) {
                if (each.has(wanted)) return true;
                return use.directories && !wanted.is_prefix && each.has(wanted.label);
            });
    };
    using session::Right;
    const auto needs = [&](uint8_t bit, Right right) {
        if ((use.rights & bit) == 0 || given(right)) return true;
        return right == Right::read && given(Right::write);
    };
    const uint8_t of_containers = capability::right_create | capability::right_destroy;
    if (use.directories && (use.rights & of_containers) != 0) return false;
    return needs(capability::right_read, Right::read) &&
           needs(capability::right_write, Right::write) &&
           needs(capability::right_create, Right::create) &&
           needs(capability::right_destroy, Right::destroy);
}

bool sees(const Tenant& tenant, std::string_view container) {
    return std::ranges::any_of(tenant.granted, [&](const auto& granted) {
        return std::ranges::any_of(
            granted, [&](const session::Granted& each) { return each.has(container); });
    });
}

bool is_revoked(const Tenant& tenant, const capability::PublicKey& program) {
    return std::ranges::any_of(tenant.revoked_capabilities,
                               [&](const auto& each) { return each.second.program == program; });
}

bool is_revoked(const Tenant& tenant, const capability::Capability& first,
                const capability::Capability& last) {
    const auto& revoked = tenant.revoked_capabilities;
    return revoked.contains(first.id) || revoked.contains(last.id) ||
           is_revoked(tenant, first.holder);
}

const Tenant* tenant_of(const TenantsByName& tenants, std::string_view subject) {
    for (const auto& [name, tenant] : tenants) {
        if (std::ranges::find(tenant.subjects, subject) != tenant.subjects.end()) return &tenant;
    }
    return nullptr;
}

}  // namespace ros2s::tenancy
