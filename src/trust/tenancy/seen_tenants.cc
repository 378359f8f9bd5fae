#include "seen_tenants.h"

namespace ros2s::tenancy {

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

}  // namespace ros2s::tenancy
