// The rights that capabilities give to tenants of a pool.
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
// Returns true if a capability of this program was revoked. It gets no other one for an hour.
[[nodiscard]] bool is_revoked(const Tenant& tenant, const capability::PublicKey& program);
// Returns true if the chain with this first and last link was revoked, or another one of its
// program.
[[nodiscard]] bool is_revoked(const Tenant& tenant, const capability::Capability& first,
                              const capability::Capability& last);

// The tenant of the subject; null: it has none.
[[nodiscard]] const Tenant* tenant_of(const TenantsByName& tenants, std::string_view subject);

}  // namespace ros2s::tenancy
