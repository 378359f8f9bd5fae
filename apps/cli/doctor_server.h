// Whether a server can be reached from here: its control plane, step by step, then its data plane.
#pragma once
#include <vector>

#include "commands.h"
#include "finding.h"
#include "server_place.h"

namespace ros2s::cli {

// Stops at the first step that fails.
Task<std::vector<Finding>> look_at_server(Workplace work, ServerPlace place);

}  // namespace ros2s::cli
