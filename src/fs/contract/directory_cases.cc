#include "suite.h"

namespace ros2s::fs::contract {

Cases directory_cases() { return {}; }

}  // namespace ros2s::fs::contract
