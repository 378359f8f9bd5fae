// Counts a process's memory allocations and the bytes of its checksums. It replaces malloc() and
// related functions, and ISA-L's CRC32C, by functions that count and call the original. In a
// program it counts from the start. As a library in LD_PRELOAD it counts in a file that the
// environment names and that other processes map.
#pragma once
#include <atomic>
#include <cstdint>

namespace ros2s::tests {

inline constexpr const char* work_file_variable = "ROS2STORE_TEST_WORK";

struct Work {
    std::atomic<uint64_t> allocations = 0;
    // Counts only calls for at least a block: frames, records and values are not counted.
    std::atomic<uint64_t> summed_bytes = 0;
};

// The counters of a program that is linked with this.
[[nodiscard]] const Work& work_here() noexcept;

}  // namespace ros2s::tests
