// fingerprint: 128 bits that stand for a name or key of any length, the same in every process: the
// front of its SHA-256. Two that are equal by chance or by design do not occur.
#pragma once
#include <string_view>

#include "ros2s/base/uuid.h"

namespace ros2s::pki {

[[nodiscard]] Uuid fingerprint(std::string_view text);

}  // namespace ros2s::pki
