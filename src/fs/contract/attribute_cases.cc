#include "suite.h"

namespace ros2s::fs::contract {

Cases attribute_cases() { return {}; }

}  // namespace ros2s::fs::contract
