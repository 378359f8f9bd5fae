#include "crc32c.h"

#include <isa-l/crc.h>

#include <array>

namespace ros2s {
namespace {

constexpr int zeros_bytes = 4096;
// ISA-L reads a block at three places at once, and the processor's own prefetch does not follow
// that. Of longer input each place is long enough.
constexpr size_t prefetched_bytes_max = 4096;
constexpr size_t cache_line_bytes = 64;

// The state of the CRC after `bytes` zeros, from the state before them. It is linear in the state.
uint32_t after_zeros(uint32_t state, int bytes) noexcept {
    static std::array<unsigned char, zeros_bytes> zeros{};
    return crc32_iscsi(zeros.data(), bytes, state);
}

// after_zeros(state, zeros_bytes) for each value of each byte of the state.
using Shifts = std::array<std::array<uint32_t, 256>, 4>;
const Shifts& shifts() noexcept {
    static const Shifts made = [] {
        Shifts table;
        for (uint32_t at = 0; at < 4; ++at) {
            for (uint32_t byte = 0; byte < 256; ++byte) {
                table[at][byte] = after_zeros(byte << 8 * at, zeros_bytes);
            }
        }
        return table;
    }();
    return made;
}

}  // namespace

uint32_t crc32c_extend(uint32_t crc, ConstBytes bytes) noexcept {
    // ISA-L takes a mutable pointer and an int length, and applies neither inversion.
    auto* data = const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(bytes.data()));
    uint32_t state = ~crc;
    if (bytes.size() <= prefetched_bytes_max) {
        for (size_t at = 0; at < bytes.size(); at += cache_line_bytes) {
            __builtin_prefetch(data + at);
        }
    }
    for (size_t left = bytes.size(); left > 0;) {
        const size_t step = left < (size_t{1} << 30) ? left : size_t{1} << 30;
        state = crc32_iscsi(data, static_cast<int>(step), state);
        data += step;
        left -= step;
    }
    return ~state;
}

uint32_t crc32c_combine(uint32_t first, uint32_t second, uint64_t bytes) noexcept {
    if (first == 0) return second;  // nothing but zeros follows from 0
    const Shifts& by = shifts();
    for (; bytes >= zeros_bytes; bytes -= zeros_bytes) {
        first = by[0][first & 0xff] ^ by[1][first >> 8 & 0xff] ^ by[2][first >> 16 & 0xff] ^
                by[3][first >> 24];
    }
    return after_zeros(first, static_cast<int>(bytes)) ^ second;
}

uint32_t crc32c(ConstBytes bytes) noexcept { return crc32c_extend(0, bytes); }

}  // namespace ros2s
