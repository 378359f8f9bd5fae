#include "policy.h"

namespace ros2s::tenancy {

Policy with_tenants(const Policy& settings, const std::map<std::string, SeenTenants>& pools) {
    Policy policy = settings;
    for (const auto& [pool, tenants] : pools) {
        for (const auto& [name, seen] : tenants) {
            const Tenant& tenant = seen.tenant;
            for (const std::string& subject : tenant.subjects) {
                // A name of a tenant has no '=', so it is not a subject.
                policy.allowances.accounts.emplace(subject, tenant.name);
                if (!seen.active) policy.access.remove(subject, pool);
                if (!seen.active) continue;
                policy.access.add_users(subject, pool, tenant.users);
                for (size_t right = 0; right < session::right_names.size(); ++right) {
                    for (const session::Granted& granted : tenant.granted[right]) {
                        policy.access.add(subject, static_cast<session::Right>(right), pool,
                                          granted);
                    }
                }
            }
            if (tenant.allowance) {
                policy.allowances.by_account.emplace(tenant.name, *tenant.allowance);
            }
        }
    }
    return policy;
}

}  // namespace ros2s::tenancy
