// LatencyHistogram: durations, in buckets whose bounds are the same everywhere. Histograms of
// several cores and machines can therefore be added. CoarseHistogram has fewer buckets, for
// histograms of which there are many: one for each tenant, say.
//
// Thread rule: as for Counter: one core adds, any thread reads. A reader may see a bucket before
// its share of the sum.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "ros2s/base/metrics.h"

namespace ros2s {

// The counts of a histogram when it was read.
struct HistogramReading {
    std::span<const uint64_t> bounds_ns;  // upper bounds, inclusive
    // By bucket, not cumulative. One more than there are bounds, for longer durations.
    std::vector<uint64_t> counts;
    uint64_t sum_ns = 0;

    // `other` has the same bounds.
    void add(const HistogramReading& other) {
        for (size_t i = 0; i < counts.size(); ++i) counts[i] += other.counts[i];
        sum_ns += other.sum_ns;
    }
};

// `bounds`: upper bounds, inclusive, in nanoseconds. One more bucket counts longer durations.
template <const auto& bounds>
class Histogram {
  public:
    static constexpr const auto& bounds_ns = bounds;

    void add(uint64_t nanoseconds) noexcept {
        const auto* const bound = std::ranges::lower_bound(bounds, nanoseconds);
        counts_[static_cast<size_t>(bound - bounds.begin())].add();
        sum_ns_.add(nanoseconds);
    }
    [[nodiscard]] HistogramReading read() const {
        HistogramReading reading{.bounds_ns = bounds, .counts = {}, .sum_ns = sum_ns_.value()};
        for (const Counter& each : counts_) reading.counts.push_back(each.value());
        return reading;
    }

  private:
    std::array<Counter, bounds.size() + 1> counts_;
    Counter sum_ns_;
};

// 10 µs to 10 s in steps of 1, 2, 5.
inline constexpr std::array<uint64_t, 19> latency_bounds_ns{
    10'000,        20'000,        50'000,        100'000,       200'000,
    500'000,       1'000'000,     2'000'000,     5'000'000,     10'000'000,
    20'000'000,    50'000'000,    100'000'000,   200'000'000,   500'000'000,
    1'000'000'000, 2'000'000'000, 5'000'000'000, 10'000'000'000};
using LatencyHistogram = Histogram<latency_bounds_ns>;

// 2^15 ns (33 µs) to 2^29 ns (0.54 s), each twice the one before.
inline constexpr auto coarse_bounds_ns = [] {
    std::array<uint64_t, 15> bounds{};
    for (size_t i = 0; i < bounds.size(); ++i) bounds[i] = uint64_t{1} << (15 + i);
    return bounds;
}();
using CoarseHistogram = Histogram<coarse_bounds_ns>;

// Called once per histogram with a Prometheus name (ros2store_…_seconds), a help sentence, and the
// operation, which is one of a fixed set of words, or empty.
using HistogramVisitor =
    std::function<void(std::string_view name, std::string_view help, std::string_view operation,
                       const HistogramReading& times)>;

}  // namespace ros2s
