// What capabilities mean for tenants of a pool.
//
// Plain functions; any thread.
#pragma once
#include <string_view>

#include "ros2s/capability/capability.h"
#include "ros2s/tenancy/tenant.h"

namespace ros2s::tenancy {

// True if the tenant's record gives all of this. Any tenant may see what it has.
[[nodiscard]] bool gives(const Tenant& tenant, const capability::Use& use);
// True if the tenant has some right in the container.
[[nodiscard]] bool sees(const Tenant& tenant, std::string_view container);
// The tenant of the subject; null: it has none.
[[nodiscard]] const Tenant* tenant_of(const TenantsByName& tenants, std::string_view subject);

}  // namespace ros2s::tenancy
