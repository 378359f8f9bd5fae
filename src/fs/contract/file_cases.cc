#include "suite.h"

namespace ros2s::fs::contract {

Cases file_cases() { return {}; }

}  // namespace ros2s::fs::contract
