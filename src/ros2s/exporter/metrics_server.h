// MetricsServer: a program's counters over HTTP, in Prometheus' text format at /metrics.
//
// The server has its own threads. A scrape visits the sources on the reactor's core, between other
// work, so sources need no locks.
//
// Owned by the program. Reactor and sources outlive it. It is created and destroyed by a thread
// other than the reactor's (stop() takes care of that), while the reactor runs. It uses HTTP basic
// authentication without TLS: the password protects against users of the machine, not against a
// network on which others can read.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ros2s/base/latency_histogram.h"
#include "ros2s/base/metrics.h"
#include "ros2s/base/result.h"
#include "ros2s/runtime/blocking.h"
#include "ros2s/runtime/os_reactor.h"
#include "ros2s/runtime/task.h"

namespace ros2s::exporter {

// Counters that share labels. Names that end in _total are counters, all others gauges.
struct Source {
    std::vector<std::pair<std::string, std::string>> labels{};
    std::function<void(const MetricVisitor&)> list;
    // Histograms, in addition to `list`. They get one more label, `operation`.
    std::function<void(const HistogramVisitor&)> times{};
    // Sources that change over time, queried at each scrape; instead of `list`.
    std::function<std::vector<Source>()> others{};
};

class MetricsServer {
  public:
    // Listens on "HOST:PORT"; port 0 is any free port. Clients must present `password`, with any
    // user name. Errors: busy (the address is taken, or is not this machine's), with a sentence.
    [[nodiscard]] static Result<std::unique_ptr<MetricsServer>> start(OsReactor& reactor,
                                                                      const std::string& address,
                                                                      std::string password,
                                                                      std::vector<Source> sources,
                                                                      Report& report);
    ~MetricsServer();
    // Stops it at once; the destructor alone may take two seconds. Called on the reactor's core.
    [[nodiscard]] static Task<> stop(Reactor& reactor, BlockingPool& blocking,
                                     std::unique_ptr<MetricsServer> server);
    MetricsServer(const MetricsServer&) = delete;
    MetricsServer& operator=(const MetricsServer&) = delete;

    [[nodiscard]] uint16_t port() const;

  private:
    struct Parts;
    explicit MetricsServer(std::unique_ptr<Parts> parts);
    std::unique_ptr<Parts> parts_;
};

}  // namespace ros2s::exporter
