// CRC32C (Castagnoli, RFC 3720 appendix B.4: reflected, initial value and final xor all ones).
// crc32c("123456789") == 0xe3069283.
#pragma once
#include <cstdint>

#include "ros2s/base/bytes.h"

namespace ros2s {

[[nodiscard]] uint32_t crc32c(ConstBytes bytes) noexcept;
// crc32c(a ++ b) == crc32c_extend(crc32c(a), b)
[[nodiscard]] uint32_t crc32c_extend(uint32_t crc, ConstBytes bytes) noexcept;

}  // namespace ros2s
