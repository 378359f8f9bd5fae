// The maximum resident memory of this process so far, in bytes.
#pragma once
#include <cstdint>
#include <fstream>
#include <string>

namespace ros2s::pool {

inline uint64_t resident_peak() {
    std::ifstream status("/proc/self/status");
    for (std::string word; status >> word;) {
        uint64_t kib = 0;
        if (word == "VmHWM:" && status >> kib) return kib << 10;
    }
    return 0;
}

}  // namespace ros2s::pool
