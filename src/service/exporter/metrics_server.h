// MetricsServer: a program's counters over HTTP, in Prometheus' text format at /metrics, and a file
// of its sampled traces at /traces.
//
// It runs on the reactor's core, between other work, so sources need no locks. It uses HTTP basic
// authentication without TLS: the password protects against users of the machine, not against a
// network on which others can read.
//
// Every client may connect. A connection has a moment to send its request, and at most 64 may be
// without a complete one: then the oldest of them is ended. A scraper sends its request at once, so
// connections that are silent or slow do not keep it waiting.
//
// Owned by the program. Reactor and sources outlive it. stop() is awaited before it is destroyed.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ros2s/base/latency_histogram.h"
#include "ros2s/base/metrics.h"
#include "ros2s/base/result.h"
#include "ros2s/runtime/reactor.h"
#include "ros2s/runtime/task.h"

namespace ros2s::exporter {

// Counters that share labels. Names that end in _total are counters, all others gauges. Values of
// names that end in _seconds_total are nanoseconds, and are shown as seconds.
struct Source {
    std::vector<std::pair<std::string, std::string>> labels{};
    std::function<void(const MetricVisitor&)> list;
    // Histograms, in addition to `list`. They get one more label, `operation`, if they name one.
    std::function<void(const HistogramVisitor&)> times{};
    // Sources that change over time, queried at each scrape; instead of `list`.
    std::function<std::vector<Source>()> others{};
};

class MetricsServer {
  public:
    // Listens on "HOST:PORT", HOST a number; port 0 is any free port. Clients must present
    // `password`, with any user name. Errors: invalid, busy (the address is taken), denied, io,
    // with a sentence.
    [[nodiscard]] static Task<Result<std::unique_ptr<MetricsServer>>> start(
        Reactor& reactor, std::string address, std::string password, std::vector<Source> sources,
        std::function<std::string()> traces, Report& report);
    ~MetricsServer();
    // Ends all connections.
    [[nodiscard]] Task<> stop();
    MetricsServer& operator=(MetricsServer&&) = delete;

    // "HOST:PORT", with the actual port.
    [[nodiscard]] const std::string& address() const;

  private:
    struct Parts;
    explicit MetricsServer(std::unique_ptr<Parts> parts);
    std::unique_ptr<Parts> parts_;
};

}  // namespace ros2s::exporter
