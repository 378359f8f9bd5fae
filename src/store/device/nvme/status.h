// The kernel reports an NVMe status as a number: bits 0 to 7 are the code, 8 to 10 its type, bit 14
// is "do not retry".
#pragma once
#include <cstdint>
#include <string>

#include "ros2s/base/result.h"

namespace ros2s::device {

// The error of a failed command. `result`: a status (positive), or -errno. Always `io`, with an
// errno; detail is the status, or 0.
[[nodiscard]] Error command_error(int32_t result) noexcept;
// "NVMe status 0x281: the medium could not be read", "No such device: the namespace is gone".
[[nodiscard]] std::string describe_failure(int32_t result);
// The same command may succeed later. It may be repeated if it is not a flush.
[[nodiscard]] bool may_repeat(int32_t result) noexcept;
// "The controller could not be reached."
inline constexpr int32_t status_no_path = 0x370;
// The controller was being reset or lost power. The content of its cache may be lost.
[[nodiscard]] bool was_cancelled(int32_t result) noexcept;

}  // namespace ros2s::device
