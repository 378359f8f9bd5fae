// The effects of writes and punches on a segment of an array.
#pragma once

#include "records.h"

namespace ros2s::rados {

// With more parts, reads and writes are slow, so the segment is rewritten.
inline constexpr size_t visible_parts_max = 128;
// Writes up to this length are kept in the omap, beside the keys that name them. One request then
// publishes them.
inline constexpr uint64_t inline_bytes_max = 16384;
// If an object's omap has more bytes than this, new bytes go to the data pool. Ceph warns about
// objects with an omap of 1 GiB.
inline constexpr uint64_t inline_bytes_in_all = uint64_t{64} << 20;

// Makes the extent a hole.
void cut(Segment& segment, object::Extent extent);
// Adds the run. It replaces older bytes.
void add(Segment& segment, Run run);
// Removes the runs that have no visible part.
void drop_hidden_runs(Segment& segment);
// Whether any byte of the range is visible.
[[nodiscard]] bool has_bytes(const Segment& segment, uint64_t from, uint64_t end);
// The number of 4 KiB blocks that have visible bytes.
[[nodiscard]] uint64_t block_count(const Segment& segment);

}  // namespace ros2s::rados
