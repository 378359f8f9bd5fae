#include "suite.h"

namespace ros2s::fs::contract {

Cases link_cases() { return {}; }

}  // namespace ros2s::fs::contract
