// Digest: 64 bits of a sequence of numbers and strings, to distinguish two requests of one client.
// It detects mistakes, not forgeries: a client that chooses both requests can make them agree.
// Digests are stored on the media (docs/formats/index.md), so the function never changes.
//
// Each word is mixed in by SplitMix64's finaliser (Steele, Lea, Flood 2014).
#pragma once
#include <cstdint>
#include <cstring>
#include <string_view>

#include "ros2s/base/bytes.h"

namespace ros2s {

class Digest {
  public:
    Digest& add(uint64_t number) {
        uint64_t z = (state_ ^ number) + 0x9e3779b97f4a7c15;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
        z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
        state_ = z ^ (z >> 31);
        return *this;
    }
    // Includes the length, so that "ab", "c" differs from "a", "bc".
    Digest& add(ConstBytes bytes) {
        add(bytes.size());
        for (; bytes.size() >= sizeof(uint64_t); bytes = bytes.subspan(sizeof(uint64_t))) {
            add(word(bytes.first(sizeof(uint64_t))));
        }
        return bytes.empty() ? *this : add(word(bytes));
    }
    Digest& add(std::string_view text) { return add(as_bytes(text)); }
    // Never 0, which stands for "none".
    [[nodiscard]] uint64_t value() const { return state_ == 0 ? 1 : state_; }

  private:
    // Little-endian, as on the media.
    static uint64_t word(ConstBytes bytes) {
        uint64_t number = 0;
        std::memcpy(&number, bytes.data(), bytes.size());
        return number;
    }
    uint64_t state_ = 0;
};

}  // namespace ros2s
