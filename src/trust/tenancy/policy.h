// Policy: the rights of subjects at a DPU, or at an engine: from its settings, and from the tenants
// of each pool.
//
// - A subject has the rights of its settings, and, at a DPU, those of its tenant in the pool.
// - A subject of a tenant that was revoked or has expired has no rights in that pool, whatever the
//   settings are.
// - Subjects of one tenant share an account. A tenant's limits replace those of the settings. A
//   subject with tenants in several pools has the account of each in its pool.
//
// A plain function; any thread.
#pragma once
#include <map>
#include <string>
#include <string_view>

#include "ros2s/tenancy/tenant.h"

namespace ros2s::tenancy {

// A tenant as the engine sees it now.
struct SeenTenant {
    Tenant tenant;
    bool active = false;
    friend bool operator==(const SeenTenant&, const SeenTenant&) = default;
};
using SeenTenants = std::map<std::string, SeenTenant, std::less<>>;
// The active tenant with this subject; null: there is none. It lives as long as `tenants`.
[[nodiscard]] const Tenant* find_tenant(const SeenTenants& tenants, std::string_view subject);

struct Policy {
    session::AccessTable access;
    admission::Allowances allowances;
};
// Adds the account of the tenant, which its subjects share in the pool, and its limits. Pools in
// the order of their names: the account has the tenant's name, or "pool/name" if a tenant of
// another pool has that name.
void add_account(admission::Allowances& allowances, const std::string& pool, const Tenant& tenant);

// Takes away what its subjects may do in the pool. For a tenant that was revoked or has expired.
void remove_rights(session::AccessTable& access, const std::string& pool, const Tenant& tenant);

// Of a DPU. `settings`: the policy without tenants. `pools`: the tenants of each pool.
[[nodiscard]] Policy with_tenants(const Policy& settings,
                                  const std::map<std::string, SeenTenants>& pools);

}  // namespace ros2s::tenancy
