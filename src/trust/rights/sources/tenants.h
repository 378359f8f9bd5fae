// The grants of a pool's tenants: of the file that the engine keeps, or of what an engine pushes to
// a DPU. Call it after add_settings(): a tenant that has ended takes those of its subjects away.
#pragma once
#include "ros2s/rights/policy.h"
#include "ros2s/tenancy/policy.h"
#include "ros2s/tenancy/tenant.h"

namespace ros2s::rights {

// At an engine. Its settings give rights to subjects; the tenants' are for capabilities. `now`: by
// the engine's clock.
void add_file(Parties& parties, const std::string& pool, const tenancy::TenantsByName& tenants,
              WallTime now);
// At a DPU: a subject has the rights of its tenant, in addition to those of the settings.
void add_pushed(Parties& parties, const std::string& pool, const tenancy::SeenTenants& tenants);

}  // namespace ros2s::rights
