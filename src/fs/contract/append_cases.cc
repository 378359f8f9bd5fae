#include "suite.h"

namespace ros2s::fs::contract {

Cases append_cases() { return {}; }

}  // namespace ros2s::fs::contract
