#include "segment.h"

#include <algorithm>

namespace ros2s::rados {

void cut(Segment& segment, object::Extent extent) {
    if (extent.length == 0) return;
    std::vector<Visible> kept;
    for (const Visible& part : segment.visible) {
        const uint64_t end = part.offset + part.length;
        if (end <= extent.offset || part.offset >= extent.end()) {
            kept.push_back(part);
            continue;
        }
        if (part.offset < extent.offset) {
            kept.push_back({part.offset, extent.offset - part.offset, part.run});
        }
        if (end > extent.end()) kept.push_back({extent.end(), end - extent.end(), part.run});
    }
    segment.visible = std::move(kept);
}

void add(Segment& segment, Run run) {
    cut(segment, {run.offset, run.length});
    const Visible part{run.offset, run.length, static_cast<uint32_t>(segment.runs.size())};
    segment.runs.push_back(std::move(run));
    const auto place = std::ranges::upper_bound(segment.visible, part.offset, {}, &Visible::offset);
    segment.visible.insert(place, part);
}

void drop_hidden_runs(Segment& segment) {
    std::vector<uint32_t> numbers(segment.runs.size(), UINT32_MAX);
    std::vector<Run> kept;
    for (Visible& part : segment.visible) {
        uint32_t& number = numbers[part.run];
        if (number == UINT32_MAX) {
            number = static_cast<uint32_t>(kept.size());
            kept.push_back(std::move(segment.runs[part.run]));
        }
        part.run = number;
    }
    segment.runs = std::move(kept);
}

bool has_bytes(const Segment& segment, uint64_t from, uint64_t end) {
    return std::ranges::any_of(segment.visible, [&](const Visible& part) {
        return part.offset < end && part.offset + part.length > from;
    });
}

uint64_t block_count(const Segment& segment) {
    uint64_t count = 0, next = 0;  // `next`: the first block that is not counted yet
    for (const Visible& part : segment.visible) {
        const uint64_t first = std::max(next, part.offset / block_bytes);
        const uint64_t end = (part.offset + part.length - 1) / block_bytes + 1;
        if (end > first) count += end - first;
        next = std::max(next, end);
    }
    return count;
}

}  // namespace ros2s::rados
