// CRC32C (Castagnoli, RFC 3720 appendix B.4: reflected, initial value and final xor all ones).
// crc32c("123456789") == 0xe3069283.
#pragma once
#include <cstdint>

#include "ros2s/base/bytes.h"

namespace ros2s {

[[nodiscard]] uint32_t crc32c(ConstBytes bytes) noexcept;
// crc32c(a ++ b) == crc32c_extend(crc32c(a), b)
[[nodiscard]] uint32_t crc32c_extend(uint32_t crc, ConstBytes bytes) noexcept;
// crc32c(a ++ b) from crc32c(a), crc32c(b) and the length of b, without the bytes. Takes a few
// nanoseconds per 4 KiB of `bytes`, and up to 100 for the rest.
[[nodiscard]] uint32_t crc32c_combine(uint32_t first, uint32_t second, uint64_t bytes) noexcept;

}  // namespace ros2s
