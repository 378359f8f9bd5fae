#include "client_metrics.h"

#include <fmt/format.h>

namespace ros2s::client {
namespace {

void visit_kind(std::string_view kind, const RequestMetrics& metrics, const MetricVisitor& visit) {
    const auto one = [&](std::string_view name, std::string_view help, const Counter& counter) {
        visit(fmt::format("ros2store_client_{}_{}", kind, name), help, counter.value());
    };
    one("requests_total", "requests that were answered", metrics.requests);
    one("errors_total", "requests and fetch items that failed", metrics.errors);
    one("bytes_total", "payload requested or sent", metrics.bytes);
    one("latency_nanoseconds_total", "sum of the times from request to answer", metrics.latency_ns);
    uint64_t below = 0;
    for (size_t i = 0; i + 1 < RequestMetrics::bucket_count; ++i) {
        below += metrics.latency[i].value();
        visit(fmt::format("ros2store_client_{}_below_{}_nanoseconds_total", kind,
                          uint64_t{1024} << 2 * i),
              "requests that were answered in less time than this", below);
    }
}

}  // namespace

void ClientMetrics::visit(const MetricVisitor& visit) const {
    visit_kind("fetch", fetch, visit);
    visit_kind("update", update, visit);
    visit_kind("list", list, visit);
    visit_kind("query", query, visit);
    visit_kind("other", other, visit);
    visit("ros2store_client_corrupt_total", "extents and values withheld because they are corrupt",
          corrupt.value());
    visit("ros2store_client_read_again_total",
          "extents read again, because they did not match in memory that a host can write",
          read_again.value());
}

}  // namespace ros2s::client
