// Where a trial's next crash comes, drawn from its seed.
#pragma once
#include "rig.h"
#include "ros2s/base/random.h"

namespace ros2s::sim {

// While clients work. What a dead process left unflushed, a power loss may take soon after.
[[nodiscard]] CrashPlan draw_crash(Random& random, bool after_process_crash);
// While the store opens.
[[nodiscard]] CrashPlan draw_recovery_crash(Random& random, bool after_process_crash);

}  // namespace ros2s::sim
