#include "suite.h"

namespace ros2s::fs::contract {

Cases rename_cases() { return {}; }

}  // namespace ros2s::fs::contract
