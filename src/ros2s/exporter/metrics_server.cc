#include "metrics_server.h"

#include <fmt/format.h>
#include <netdb.h>
#include <prometheus/collectable.h>
#include <prometheus/exposer.h>
#include <prometheus/metric_family.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <stdexcept>

#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/run_blocking.h"

namespace ros2s::exporter {
namespace {

using Families = std::map<std::string, prometheus::MetricFamily>;

prometheus::MetricFamily& family_of(Families& families, std::string_view name,
                                    std::string_view help, prometheus::MetricType type) {
    prometheus::MetricFamily& family = families[std::string(name)];
    if (family.name.empty()) family = {std::string(name), std::string(help), type, {}};
    return family;
}

prometheus::ClientMetric::Histogram picture_of(const LatencyHistogram& times) {
    constexpr double nanoseconds = 1e9;
    prometheus::ClientMetric::Histogram picture;
    for (size_t i = 0; i <= LatencyHistogram::bounds_ns.size(); ++i) {
        picture.sample_count += times.count(i);
        const double bound = i < LatencyHistogram::bounds_ns.size()
                                 ? static_cast<double>(LatencyHistogram::bounds_ns[i]) / nanoseconds
                                 : std::numeric_limits<double>::infinity();
        picture.bucket.push_back({picture.sample_count, bound});
    }
    picture.sample_sum = static_cast<double>(times.sum_ns()) / nanoseconds;
    return picture;
}

void visit_times(const Source& source, Families& families) {
    source.times([&](std::string_view name, std::string_view help, std::string_view operation,
                     const LatencyHistogram& times) {
        prometheus::ClientMetric metric;
        for (const auto& [label, text] : source.labels) metric.label.push_back({label, text});
        metric.label.push_back({"operation", std::string(operation)});
        metric.histogram = picture_of(times);
        family_of(families, name, help, prometheus::MetricType::Histogram)
            .metric.push_back(std::move(metric));
    });
}

void visit_sources(const std::vector<Source>& sources, Families& families) {
    for (const Source& source : sources) {
        if (source.others) {
            visit_sources(source.others(), families);
            continue;
        }
        source.list([&](std::string_view name, std::string_view help, uint64_t value) {
            const bool is_counter = name.ends_with("_total");
            prometheus::MetricFamily& family = family_of(
                families, name, help,
                is_counter ? prometheus::MetricType::Counter : prometheus::MetricType::Gauge);
            prometheus::ClientMetric metric;
            for (const auto& [label, text] : source.labels) metric.label.push_back({label, text});
            (is_counter ? metric.counter.value : metric.gauge.value) = static_cast<double>(value);
            family.metric.push_back(std::move(metric));
        });
        if (source.times) visit_times(source, families);
    }
}

Task<> visit_all(const std::vector<Source>& sources, Families& families) {
    visit_sources(sources, families);
    co_return;
}

class Sources final : public prometheus::Collectable {
  public:
    Sources(OsReactor& reactor, std::vector<Source> sources)
        : reactor_(reactor), sources_(std::move(sources)) {}
    [[nodiscard]] std::vector<prometheus::MetricFamily> Collect() const override {
        Families families;
        run_blocking(reactor_, [&] { return visit_all(sources_, families); });
        std::vector<prometheus::MetricFamily> all;
        for (auto& [name, family] : families) all.push_back(std::move(family));
        return all;
    }

  private:
    OsReactor& reactor_;
    std::vector<Source> sources_;
};

// Takes as long whatever of it is right.
bool is_same(std::string_view wanted, std::string_view given) {
    unsigned different = wanted.size() == given.size() ? 0 : 1;
    for (size_t i = 0; i < given.size(); ++i) {
        different |= static_cast<unsigned char>(given[i]) ^
                     static_cast<unsigned char>(wanted[i % std::max<size_t>(wanted.size(), 1)]);
    }
    return different == 0 && !wanted.empty();
}

void connect_once(const std::string& address, uint16_t port) {
    std::string host = address.substr(0, address.rfind(':'));
    if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
    addrinfo hints{};
    hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) return;
    const int socket =
        ::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP);
    // A handshake with this machine is done when the call returns.
    (void)::connect(socket, found->ai_addr, found->ai_addrlen);
    if (socket >= 0) ::close(socket);
    ::freeaddrinfo(found);
}

// The library's thread looks every two seconds whether it shall stop, and whenever somebody has
// connected.
Task<> keep_connecting(Reactor& reactor, std::string address, uint16_t port, StopToken stop) {
    while (!stop.stop_requested()) {
        connect_once(address, port);
        co_await sleep_for(reactor, std::chrono::milliseconds(5), stop);
    }
}

}  // namespace

struct MetricsServer::Parts {
    Parts(OsReactor& reactor, const std::string& address, std::string password,
          std::vector<Source> list)
        : host(address),
          sources(std::make_shared<Sources>(reactor, std::move(list))),
          exposer(address, 1) {
        exposer.RegisterAuth(
            [wanted = std::move(password)](const std::string&, const std::string& given) {
                return is_same(wanted, given);
            },
            "ros2store metrics");
        exposer.RegisterCollectable(sources);
    }
    [[nodiscard]] uint16_t port() const {
        const auto ports = exposer.GetListeningPorts();
        return ports.empty() ? uint16_t{0} : static_cast<uint16_t>(ports.front());
    }
    std::string host;
    std::shared_ptr<Sources> sources;
    prometheus::Exposer exposer;
};

MetricsServer::MetricsServer(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
MetricsServer::~MetricsServer() = default;

Task<> MetricsServer::stop(Reactor& reactor, BlockingPool& blocking,
                           std::unique_ptr<MetricsServer> server) {
    StopSource stopped;
    Nursery nursery(reactor, 1);
    ROS2S_CHECK(nursery.try_spawn(
        keep_connecting(reactor, server->parts_->host, server->port(), stopped.token())));
    (void)co_await blocking.run(reactor, [&server] {
        server.reset();
        return Result<>{};
    });
    stopped.request_stop();
    co_await nursery.join();
}

Result<std::unique_ptr<MetricsServer>> MetricsServer::start(OsReactor& reactor,
                                                            const std::string& address,
                                                            std::string password,
                                                            std::vector<Source> sources,
                                                            Report& report) {
    // The library reports a failure to listen by an exception, without the reason.
    try {
        return std::unique_ptr<MetricsServer>(new MetricsServer(
            std::make_unique<Parts>(reactor, address, std::move(password), std::move(sources))));
    } catch (const std::exception&) {
        return report.fail(Code::busy,
                           fmt::format("cannot serve metrics on {}: the port is taken, or the "
                                       "address is not of this machine. `ss -ltnp` lists "
                                       "listeners; change 'metrics: listen' in the settings",
                                       address));
    }
}

uint16_t MetricsServer::port() const { return parts_->port(); }

}  // namespace ros2s::exporter
