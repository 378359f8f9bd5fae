// TenantSources: metrics of tenants, with the label `tenant`. Tenants after the first labels_max
// are added up as "(others)", so that a scrape stays small.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ros2s/exporter/metrics_server.h"

namespace ros2s::daemon {

class TenantSources {
  public:
    static constexpr size_t labels_max = 64;
    // All sources of one more tenant.
    void add(const std::string& subject, std::vector<exporter::Source> sources);
    // Of all tenants.
    [[nodiscard]] std::vector<exporter::Source> take();

  private:
    size_t tenants_ = 0;
    std::vector<exporter::Source> labelled_;
    // By name: the help, and the sum.
    template <class Value>
    using Sums = std::map<std::string, std::pair<std::string, Value>, std::less<>>;
    Sums<uint64_t> others_;
    Sums<HistogramReading> times_of_others_;  // tenants' histograms have no operation
};

}  // namespace ros2s::daemon
