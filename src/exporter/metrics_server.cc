#include "metrics_server.h"

#include <fmt/format.h>
#include <prometheus/collectable.h>
#include <prometheus/exposer.h>
#include <prometheus/metric_family.h>

#include <map>
#include <stdexcept>

#include "ros2s/runtime/run_blocking.h"

namespace ros2s::exporter {
namespace {

Task<> visit_all(const std::vector<Source>& sources,
                 std::map<std::string, prometheus::MetricFamily>& families) {
    for (const Source& source : sources) {
        source.list([&](std::string_view name, std::string_view help, uint64_t value) {
            prometheus::MetricFamily& family = families[std::string(name)];
            const bool is_counter = name.ends_with("_total");
            if (family.name.empty()) {
                family.name = name;
                family.help = help;
                family.type =
                    is_counter ? prometheus::MetricType::Counter : prometheus::MetricType::Gauge;
            }
            prometheus::ClientMetric metric;
            for (const auto& [label, text] : source.labels) metric.label.push_back({label, text});
            (is_counter ? metric.counter.value : metric.gauge.value) = static_cast<double>(value);
            family.metric.push_back(std::move(metric));
        });
    }
    co_return;
}

class Sources final : public prometheus::Collectable {
  public:
    Sources(OsReactor& reactor, std::vector<Source> sources)
        : reactor_(reactor), sources_(std::move(sources)) {}
    [[nodiscard]] std::vector<prometheus::MetricFamily> Collect() const override {
        std::map<std::string, prometheus::MetricFamily> families;
        run_blocking(reactor_, [&] { return visit_all(sources_, families); });
        std::vector<prometheus::MetricFamily> all;
        for (auto& [name, family] : families) all.push_back(std::move(family));
        return all;
    }

  private:
    OsReactor& reactor_;
    std::vector<Source> sources_;
};

}  // namespace

struct MetricsServer::Parts {
    Parts(OsReactor& reactor, const std::string& address, std::vector<Source> list)
        : sources(std::make_shared<Sources>(reactor, std::move(list))), exposer(address, 1) {
        exposer.RegisterCollectable(sources);
    }
    std::shared_ptr<Sources> sources;
    prometheus::Exposer exposer;
};

MetricsServer::MetricsServer(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
MetricsServer::~MetricsServer() = default;

Result<std::unique_ptr<MetricsServer>> MetricsServer::start(OsReactor& reactor,
                                                            const std::string& address,
                                                            std::vector<Source> sources,
                                                            Report& report) {
    // The library reports a failure to listen by an exception, without the reason.
    try {
        return std::unique_ptr<MetricsServer>(
            new MetricsServer(std::make_unique<Parts>(reactor, address, std::move(sources))));
    } catch (const std::exception&) {
        return report.fail(Code::busy,
                           fmt::format("cannot serve metrics on {}: is the port taken, or the "
                                       "address not one of this machine? `ss -ltnp` lists who "
                                       "listens; another address, or none, is set in the settings",
                                       address));
    }
}

uint16_t MetricsServer::port() const {
    const auto ports = parts_->exposer.GetListeningPorts();
    return ports.empty() ? uint16_t{0} : static_cast<uint16_t>(ports.front());
}

}  // namespace ros2s::exporter
