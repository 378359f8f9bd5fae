// The tenants of pools as another server sees them, and their accounts.
//
// Plain values; any thread.
#pragma once
#include <map>
#include <string>

#include "ros2s/tenancy/tenant.h"

namespace ros2s::tenancy {

// A tenant as the engine sees it now.
struct SeenTenant {
    Tenant tenant;
    bool active = false;
    friend bool operator==(const SeenTenant&, const SeenTenant&) = default;
};
using SeenTenants = std::map<std::string, SeenTenant, std::less<>>;

// Adds the account of the tenant, which its subjects share in the pool, and its limits, which
// replace those of the settings. Pools in the order of their names: the account has the tenant's
// name, or "pool/name" if a tenant of another pool has that name. A subject with tenants in several
// pools has the account of each in its pool.
void add_account(admission::Allowances& allowances, const std::string& pool, const Tenant& tenant);

}  // namespace ros2s::tenancy
