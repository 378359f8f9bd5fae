#include "suite.h"

namespace ros2s::fs::contract {

Cases open_cases() { return {}; }

}  // namespace ros2s::fs::contract
