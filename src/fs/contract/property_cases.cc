#include "suite.h"

namespace ros2s::fs::contract {

Cases property_cases() { return {}; }

}  // namespace ros2s::fs::contract
