// LatencyHistogram: durations, in buckets whose bounds are the same everywhere. Histograms of
// several cores and machines can therefore be added.
//
// Thread rule: as for Counter: one core adds, any thread reads. A reader may see a bucket before
// its share of the sum.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

#include "ros2s/base/metrics.h"

namespace ros2s {

class LatencyHistogram {
  public:
    // Upper bounds, inclusive, in nanoseconds: 10 µs to 10 s in steps of 1, 2, 5. One more bucket
    // counts longer durations.
    static constexpr std::array<uint64_t, 19> bounds_ns{
        10'000,        20'000,        50'000,        100'000,       200'000,
        500'000,       1'000'000,     2'000'000,     5'000'000,     10'000'000,
        20'000'000,    50'000'000,    100'000'000,   200'000'000,   500'000'000,
        1'000'000'000, 2'000'000'000, 5'000'000'000, 10'000'000'000};

    void add(uint64_t nanoseconds) noexcept {
        const auto* const bound = std::ranges::lower_bound(bounds_ns, nanoseconds);
        counts_[static_cast<size_t>(bound - bounds_ns.begin())].add();
        sum_ns_.add(nanoseconds);
    }
    // The count of one bucket, not cumulative. Bucket `bounds_ns.size()` counts longer durations.
    [[nodiscard]] uint64_t count(size_t bucket) const noexcept { return counts_[bucket].value(); }
    [[nodiscard]] uint64_t sum_ns() const noexcept { return sum_ns_.value(); }

  private:
    std::array<Counter, bounds_ns.size() + 1> counts_;
    Counter sum_ns_;
};

// Called once per histogram with a Prometheus name (ros2store_…_seconds), a help sentence, and the
// operation, which is one of a fixed set of words.
using HistogramVisitor =
    std::function<void(std::string_view name, std::string_view help, std::string_view operation,
                       const LatencyHistogram& histogram)>;

}  // namespace ros2s
