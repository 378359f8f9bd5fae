// Checks whether a server can be reached from here: its control plane, step by step, then its data
// plane.
#pragma once
#include <vector>

#include "commands.h"
#include "examined_server.h"
#include "finding.h"

namespace ros2s::cli {

// Stops at the first step that fails.
Task<std::vector<Finding>> look_at_server(CommandContext context, ExaminedServer server);

}  // namespace ros2s::cli
