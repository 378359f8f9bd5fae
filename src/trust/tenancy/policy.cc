#include "policy.h"

#include <algorithm>

namespace ros2s::tenancy {

const Tenant* find_tenant(const SeenTenants& tenants, std::string_view subject) {
    for (const auto& [name, seen] : tenants) {
        if (!seen.active) continue;
        if (std::ranges::find(seen.tenant.subjects, subject) != seen.tenant.subjects.end()) {
            return &seen.tenant;
        }
    }
    return nullptr;
}

void add_account(admission::Allowances& allowances, const std::string& pool, const Tenant& tenant) {
    // A name of a tenant has no '=' and no '/'. So it is not a subject, nor an account of two
    // names.
    auto& by_pool = allowances.accounts[tenant.name];
    const std::string account = by_pool.empty() ? tenant.name : pool + "/" + tenant.name;
    by_pool.emplace(pool, account);
    for (const std::string& subject : tenant.subjects) {
        allowances.accounts[subject].emplace(pool, account);
    }
    if (tenant.allowance) allowances.by_account.insert_or_assign(account, *tenant.allowance);
}

void remove_rights(session::AccessTable& access, const std::string& pool, const Tenant& tenant) {
    for (const std::string& subject : tenant.subjects) access.remove(subject, pool);
}

Policy with_tenants(const Policy& settings, const std::map<std::string, SeenTenants>& pools) {
    Policy policy = settings;
    for (const auto& [pool, tenants] : pools) {
        for (const auto& [name, seen] : tenants) {
            const Tenant& tenant = seen.tenant;
            add_account(policy.allowances, pool, tenant);
            if (!seen.active) {
                remove_rights(policy.access, pool, tenant);
                continue;
            }
            for (const std::string& subject : tenant.subjects) {
                policy.access.add_users(subject, pool, tenant.users);
                for (size_t right = 0; right < session::right_names.size(); ++right) {
                    for (const session::Granted& granted : tenant.granted[right]) {
                        policy.access.add(subject, static_cast<session::Right>(right), pool,
                                          granted);
                    }
                }
            }
        }
    }
    return policy;
}

}  // namespace ros2s::tenancy
