// Counts a process's allocations of memory and the bytes that it computes checksums of: malloc()
// and its kin, and ISA-L's CRC32C, are replaced by functions of the same names that count and pass
// on. In a program it counts from the start; as a library in LD_PRELOAD it counts in a file that
// others map, named by the environment.
#pragma once
#include <atomic>
#include <cstdint>

namespace ros2s::tests {

inline constexpr const char* work_file_variable = "ROS2STORE_TEST_WORK";

struct Work {
    std::atomic<uint64_t> allocations = 0;
    // Only of calls for a block or more: frames, records and values are not counted.
    std::atomic<uint64_t> summed_bytes = 0;
};

// Of a program that this is linked into.
[[nodiscard]] const Work& work_here() noexcept;

}  // namespace ros2s::tests
