#include "suite.h"

namespace ros2s::fs::contract {

Cases xattr_cases() { return {}; }

}  // namespace ros2s::fs::contract
