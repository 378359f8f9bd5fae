// Metrics: a struct of counters beside the class that counts. A collector lists them on request.
// One core writes a counter and any thread may read it, so counters are relaxed atomics that their
// only writer updates without a locked instruction.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <string_view>

namespace ros2s {

class Counter {
  public:
    void add(uint64_t n = 1) noexcept {
        value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
    }
    void subtract(uint64_t n = 1) noexcept {
        value_.store(value_.load(std::memory_order_relaxed) - n, std::memory_order_relaxed);
    }
    void set(uint64_t n) noexcept { value_.store(n, std::memory_order_relaxed); }
    [[nodiscard]] uint64_t value() const noexcept { return value_.load(std::memory_order_relaxed); }

  private:
    std::atomic<uint64_t> value_ = 0;
};

// Called once per metric: a Prometheus name (ros2store_…), a help sentence, the value. Values of
// names that end in _seconds_total are nanoseconds.
using MetricVisitor =
    std::function<void(std::string_view name, std::string_view help, uint64_t value)>;

}  // namespace ros2s
