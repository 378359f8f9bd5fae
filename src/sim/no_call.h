// The Call of a simulated client: it has no deadline and is not cancelled.
#pragma once
#include "ros2s/runtime/call.h"

namespace ros2s::sim {

inline const Call no_call;

}  // namespace ros2s::sim
