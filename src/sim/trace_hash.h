// TraceHash: the events of a simulation, in order, as one number (FNV-1a, 64 bits). Two runs of one
// seed must give the same number.
#pragma once
#include <cstdint>
#include <string_view>

namespace ros2s::sim {

class TraceHash {
  public:
    void add(uint64_t word) {
        for (int shift = 0; shift < 64; shift += 8) add_byte(static_cast<uint8_t>(word >> shift));
    }
    void add(std::string_view text) {
        for (const char letter : text) add_byte(static_cast<uint8_t>(letter));
        add(text.size());
    }
    [[nodiscard]] uint64_t value() const { return value_; }

  private:
    void add_byte(uint8_t byte) { value_ = (value_ ^ byte) * 0x100000001b3; }
    uint64_t value_ = 0xcbf29ce484222325;
};

}  // namespace ros2s::sim
