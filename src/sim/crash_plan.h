// The point of a trial's next crash, drawn from its seed.
#pragma once
#include "rig.h"
#include "ros2s/base/random.h"

namespace ros2s::sim {

// While clients work. A power loss soon after a process crash may take what that process left
// unflushed.
[[nodiscard]] CrashPlan draw_crash(Random& random, bool after_process_crash);
// While the store opens.
[[nodiscard]] CrashPlan draw_recovery_crash(Random& random, bool after_process_crash);

}  // namespace ros2s::sim
