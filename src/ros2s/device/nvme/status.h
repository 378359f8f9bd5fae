// NVMe status codes, as the kernel hands them on: bits 0 to 7 the code, 8 to 10 its type, bit 14
// "do not retry".
#pragma once
#include <cstdint>
#include <string>

#include "ros2s/base/result.h"

namespace ros2s::device {

// `result` of a command that failed: a status (positive), or -errno. Always `io`, with an errno;
// detail is the status, 0 where there is none.
[[nodiscard]] Error command_error(int32_t result) noexcept;
// "NVMe status 0x281: the medium could not be read", "No such device: the namespace is gone".
[[nodiscard]] std::string describe_failure(int32_t result);
// The same command may succeed later, and may be repeated if it is no flush.
[[nodiscard]] bool may_repeat(int32_t result) noexcept;
// "The controller could not be reached."
inline constexpr int32_t status_no_path = 0x370;
// It met a controller that is being reset or lost power, whose cache may have gone with that.
[[nodiscard]] bool was_cancelled(int32_t result) noexcept;

}  // namespace ros2s::device
