// target_of() gives the target of a dkey in a pool. The number of targets is fixed when the pool is
// made (Superblock::targets). The opener of the pool spreads them over its cores. A client of the
// network will route by the same function. So it never changes: docs/formats/targets.md, and golden
// values in format_test.cc.
//
// Mixing: the finaliser of SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number
// Generators, OOPSLA 2014; the constants are Stafford's variant 13).
#pragma once
#include <cstdint>
#include <string_view>

#include "ros2s/object/vocabulary.h"

namespace ros2s::engine {

inline constexpr uint32_t pool_targets_max = 4096;

// 0 <= result < targets; `targets` is at least 1.
[[nodiscard]] uint32_t target_of(object::ContainerId container, object::ObjectId object,
                                 std::string_view dkey, uint32_t targets);

}  // namespace ros2s::engine
