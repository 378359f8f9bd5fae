// MethodTimes: the durations of a service's requests, by method.
//
// A member of the service; its core adds, any thread reads.
#pragma once
#include <span>
#include <string_view>
#include <vector>

#include "ros2s/base/latency_histogram.h"
#include "ros2s/runtime/time.h"

namespace ros2s::rpc {

class MethodTimes {
  public:
    // `names`: of methods 1, 2, …; they outlive this. All other methods are "other".
    explicit MethodTimes(std::span<const std::string_view> names)
        : names_(names), times_(names.size() + 1) {}
    void add(uint16_t method, Duration took) noexcept {
        times_[method <= names_.size() ? method : 0].add(static_cast<uint64_t>(took.count()));
    }
    [[nodiscard]] std::string_view name(uint16_t method) const noexcept {
        return method == 0 || method > names_.size() ? "other" : names_[method - 1];
    }
    void visit(const HistogramVisitor& visit) const {
        for (size_t i = 0; i < times_.size(); ++i) {
            visit("ros2store_request_duration_seconds",
                  "From a request's arrival to its reply, by method",
                  name(static_cast<uint16_t>(i)), times_[i].read());
        }
    }

  private:
    std::span<const std::string_view> names_;
    std::vector<LatencyHistogram> times_;  // [0]: other
};

}  // namespace ros2s::rpc
