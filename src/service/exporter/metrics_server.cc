#include "metrics_server.h"

#include <poll.h>
#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <limits>
#include <list>
#include <map>

#include "http.h"
#include "ros2s/fabric/socket/socket.h"
#include "ros2s/runtime/ring.h"

namespace ros2s::exporter {
namespace {

using Families = std::map<std::string, prometheus::MetricFamily>;

prometheus::MetricFamily& family_of(Families& families, std::string_view name,
                                    std::string_view help, prometheus::MetricType type) {
    prometheus::MetricFamily& family = families[std::string(name)];
    if (family.name.empty()) family = {std::string(name), std::string(help), type, {}};
    return family;
}

constexpr double nanoseconds = 1e9;  // of a second

prometheus::ClientMetric::Histogram picture_of(const HistogramReading& times) {
    prometheus::ClientMetric::Histogram picture;
    for (size_t i = 0; i < times.counts.size(); ++i) {
        picture.sample_count += times.counts[i];
        const double bound = i < times.bounds_ns.size()
                                 ? static_cast<double>(times.bounds_ns[i]) / nanoseconds
                                 : std::numeric_limits<double>::infinity();
        picture.bucket.push_back({picture.sample_count, bound});
    }
    picture.sample_sum = static_cast<double>(times.sum_ns) / nanoseconds;
    return picture;
}

void visit_times(const Source& source, Families& families) {
    source.times([&](std::string_view name, std::string_view help, std::string_view operation,
                     const HistogramReading& times) {
        prometheus::ClientMetric metric;
        for (const auto& [label, text] : source.labels) metric.label.push_back({label, text});
        if (!operation.empty()) metric.label.push_back({"operation", std::string(operation)});
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
            (is_counter ? metric.counter.value : metric.gauge.value) =
                static_cast<double>(value) / (name.ends_with("_seconds_total") ? nanoseconds : 1);
            family.metric.push_back(std::move(metric));
        });
        if (source.times) visit_times(source, families);
    }
}

// Family by family, so that the core runs other work between them.
Task<std::string> text_of(Reactor& reactor, const std::vector<Source>& sources) {
    Families families;
    visit_sources(sources, families);
    std::string text;
    for (auto& [name, family] : families) {
        text += prometheus::TextSerializer().Serialize({std::move(family)});
        co_await yield(reactor);
    }
    co_return text;
}

// The head of a request. Errors: disconnected (also if it is too long), cancelled, io.
Task<Result<std::string>> hear(Reactor& reactor, int fd, StopToken stop) {
    constexpr size_t head_bytes_max = 8192;
    std::string head;
    while (head.find("\r\n\r\n") == head.npos) {
        std::array<char, 512> part;
        const ssize_t got = ::recv(fd, part.data(), part.size(), MSG_DONTWAIT);
        if (got > 0 && head.size() < head_bytes_max) {
            head.append(part.data(), static_cast<size_t>(got));
        } else if (got < 0 && errno == EAGAIN) {
            const auto polled = co_await reactor.ring()->poll(fd, POLLIN, stop);
            if (!polled) co_return fail(polled.error());
        } else if (got >= 0 || errno != EINTR) {
            co_return fail(Code::disconnected);
        }
    }
    co_return head;
}

}  // namespace

struct MetricsServer::Parts {
    Parts(Reactor& on, fabric::Descriptor listening, std::string at, std::string wanted,
          std::vector<Source> list, std::function<std::string()> make_traces)
        : reactor(on),
          socket(std::move(listening)),
          address(std::move(at)),
          password(std::move(wanted)),
          sources(std::move(list)),
          traces(std::move(make_traces)),
          // Connections that make room take a moment to end.
          connections(on, 3 * unheard_max),
          accepting(on, 1) {}

    static constexpr size_t unheard_max = 64;
    static constexpr Duration request_within = std::chrono::seconds(5);
    static constexpr Duration reply_within = std::chrono::seconds(30);

    static Task<> run(Parts& self);
    static Task<> serve(Parts& self, fabric::Descriptor peer);
    // A complete request. Errors: those of hear(); the connection made room for another.
    Task<Result<std::string>> hear_in_time(int fd);
    Task<std::string> reply_to(std::string request);

    Reactor& reactor;
    fabric::Descriptor socket;
    std::string address;
    std::string password;
    std::vector<Source> sources;
    std::function<std::string()> traces;
    std::list<StopSource*> unheard;  // connections without a complete request, the oldest first
    StopSource stop;
    Nursery connections;
    Nursery accepting;
};

Task<> MetricsServer::Parts::run(Parts& self) {
    for (;;) {
        auto peer =
            co_await fabric::accept_from(self.reactor, self.socket.get(), self.stop.token());
        if (!peer) co_return;  // stopped
        if (self.unheard.size() >= unheard_max) {
            StopSource& oldest = *self.unheard.front();
            self.unheard.pop_front();
            oldest.request_stop();
        }
        co_await self.connections.spawn(serve(self, std::move(*peer)));
        co_await yield(self.reactor);
    }
}

Task<Result<std::string>> MetricsServer::Parts::hear_in_time(int fd) {
    StopSource makes_room;
    unheard.push_back(&makes_room);
    if (stop.stop_requested()) makes_room.request_stop();
    fabric::Deadline deadline(reactor, reactor.now() + request_within, makes_room.token());
    auto request = co_await hear(reactor, fd, deadline.token());
    std::erase(unheard, &makes_room);
    co_await deadline.finish();
    co_return request;
}

Task<std::string> MetricsServer::Parts::reply_to(std::string request) {
    switch (verdict_on(request, password)) {
        case Verdict::metrics:
            co_return http_reply("200 OK", "text/plain; version=0.0.4; charset=utf-8", {},
                                 co_await text_of(reactor, sources));
        case Verdict::traces: co_return http_reply("200 OK", "application/json", {}, traces());
        case Verdict::unknown_password:
            co_return http_reply("401 Unauthorized", "text/plain",
                                 "WWW-Authenticate: Basic realm=\"ros2store metrics\"\r\n",
                                 "the user name may be any, the password is in the file that the "
                                 "daemon's settings name\n");
        case Verdict::other_method:
            co_return http_reply("405 Method Not Allowed", "text/plain", "Allow: GET\r\n",
                                 "only GET\n");
        case Verdict::other_path: break;
    }
    co_return http_reply("404 Not Found", "text/plain", {},
                         "the metrics are at /metrics, sampled traces at /traces\n");
}

Task<> MetricsServer::Parts::serve(Parts& self, fabric::Descriptor peer) {
    auto request = co_await self.hear_in_time(peer.get());
    if (!request) co_return;
    const std::string reply = co_await self.reply_to(std::move(*request));
    fabric::Deadline deadline(self.reactor, self.reactor.now() + reply_within, self.stop.token());
    // A peer that is gone needs no reply.
    (void)co_await fabric::send_all(self.reactor, peer.get(), as_bytes(reply), deadline.token());
    co_await deadline.finish();
}

MetricsServer::MetricsServer(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
MetricsServer::~MetricsServer() = default;

const std::string& MetricsServer::address() const { return parts_->address; }

Task<> MetricsServer::stop() {
    parts_->stop.request_stop();
    for (StopSource* each : std::exchange(parts_->unheard, {})) each->request_stop();
    co_await parts_->accepting.join();
    co_await parts_->connections.join();
}

Task<Result<std::unique_ptr<MetricsServer>>> MetricsServer::start(
    Reactor& reactor, std::string address, std::string password, std::vector<Source> sources,
    std::function<std::string()> traces, Report& report) {
    auto listening = co_await fabric::listen_when_free(reactor, address, report);
    if (!listening) {
        co_return report.fail(listening.error(),
                              "cannot serve metrics: check 'metrics: listen' in the settings");
    }
    auto parts =
        std::make_unique<Parts>(reactor, std::move(*listening), std::move(address),
                                std::move(password), std::move(sources), std::move(traces));
    ROS2S_CHECK(parts->accepting.try_spawn(Parts::run(*parts)));
    co_return std::unique_ptr<MetricsServer>(new MetricsServer(std::move(parts)));
}

}  // namespace ros2s::exporter
