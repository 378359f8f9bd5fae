// The grants of a pool's tenants: of the file that the engine keeps, or of what an engine pushes to
// a DPU. Call it when the parties have the settings' subjects: a tenant that has ended takes those
// of its subjects in the pool away.
#pragma once
#include "ros2s/rights/policy.h"
#include "ros2s/tenancy/seen_tenants.h"
#include "ros2s/tenancy/tenant.h"

namespace ros2s::rights {

// At an engine. Its settings give rights to subjects; the tenants' are for capabilities. `now`: by
// the engine's clock.
void add_file(Parties& parties, const std::string& pool, const tenancy::TenantsByName& tenants,
              WallTime now);
// At a DPU: a subject has the rights of its tenant, in addition to those of the settings. `own`:
// tenants own containers here. They do not at a DPU with rights of its own, which owns what it
// creates for them.
void add_pushed(Parties& parties, const std::string& pool, const tenancy::SeenTenants& tenants,
                bool own);

}  // namespace ros2s::rights
