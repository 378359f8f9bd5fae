// The effects of writes and punches on a segment of an array.
#pragma once
#include <vector>

#include "records.h"

namespace ros2s::rados {

// More make reading slow: such a segment is written anew.
inline constexpr size_t visible_parts_max = 64;

// The bytes of the extent become a hole.
void cut(Segment& segment, object::Extent extent);
// The run replaces what was there.
void add(Segment& segment, Run run);
// Removes the runs of which nothing is visible.
void drop_hidden_runs(Segment& segment);
// The number of 4 KiB blocks that have visible bytes.
[[nodiscard]] uint64_t block_count(const Segment& segment);

}  // namespace ros2s::rados
