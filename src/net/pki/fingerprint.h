// fingerprint: 128 bits that represent a name or key of any length, the same in every process: the
// first half of its SHA-256. Collisions do not occur, by chance or by design.
#pragma once
#include <string_view>

#include "ros2s/base/uuid.h"

namespace ros2s::pki {

[[nodiscard]] Uuid fingerprint(std::string_view text);

}  // namespace ros2s::pki
