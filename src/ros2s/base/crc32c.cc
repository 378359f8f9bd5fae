#include "crc32c.h"

#include <isa-l/crc.h>

namespace ros2s {

uint32_t crc32c_extend(uint32_t crc, ConstBytes bytes) noexcept {
    // ISA-L takes a mutable pointer and an int length, and applies neither inversion.
    auto* data = const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(bytes.data()));
    uint32_t state = ~crc;
    for (size_t left = bytes.size(); left > 0;) {
        const size_t step = left < (size_t{1} << 30) ? left : size_t{1} << 30;
        state = crc32_iscsi(data, static_cast<int>(step), state);
        data += step;
        left -= step;
    }
    return ~state;
}

uint32_t crc32c(ConstBytes bytes) noexcept { return crc32c_extend(0, bytes); }

}  // namespace ros2s
