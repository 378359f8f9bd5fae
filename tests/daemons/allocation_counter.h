// Counts a process's allocations of memory: malloc() and its kin are replaced by functions of the
// same names that count and pass on. In a program it counts from the start; as a library in
// LD_PRELOAD it counts in a file of 8 bytes that others map, named by the environment.
#pragma once
#include <cstdint>

namespace ros2s::tests {

inline constexpr const char* allocations_file_variable = "ROS2STORE_TEST_ALLOCATIONS";

// Of a program that this is linked into.
[[nodiscard]] uint64_t allocations_here() noexcept;

}  // namespace ros2s::tests
