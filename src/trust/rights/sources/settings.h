// The grants of a server's settings (`access:`). A subject there is a tenant without a name.
#pragma once
#include "ros2s/rights/policy.h"
#include "ros2s/session/access_table.h"

namespace ros2s::rights {

void add_settings(Parties& parties, const session::AccessTable& settings);

}  // namespace ros2s::rights
