#include "suite.h"

namespace ros2s::fs::contract {

Cases read_many_cases() { return {}; }

}  // namespace ros2s::fs::contract
