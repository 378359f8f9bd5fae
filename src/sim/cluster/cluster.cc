#include "ros2s/sim/cluster/cluster.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <queue>

#include "ros2s/base/check.h"
#include "ros2s/base/random.h"

namespace ros2s::sim::cluster {
namespace {

using planning::bytes_per_gbit;
using planning::microseconds_per_s;

// A queue with several places.
class Station {
  public:
    explicit Station(uint32_t places) : free_at_(places, 0.0) {}
    // The end of a service that is asked for at `now`; each call's `now` is not before the last's.
    double serve(double now, double seconds) {
        std::ranges::pop_heap(free_at_, std::greater<>{});
        const double end = std::max(now, free_at_.back()) + seconds;
        free_at_.back() = end;
        std::ranges::push_heap(free_at_, std::greater<>{});
        return end;
    }

  private:
    std::vector<double> free_at_;  // a heap, the earliest first
};

enum Step : uint8_t {
    host_before,
    dpu_before,
    server_before,
    medium,
    bus,
    server_after,
    server_port,
    dpu_port,
    dpu_memory,
    dpu_after,
    link,
    host_after,
    steps,
};

struct Event {
    double at;
    uint64_t order;  // of events at one time: as they were made
    uint32_t request;
    Step step;
    bool operator>(const Event& other) const {
        return at != other.at ? at > other.at : order > other.order;
    }
};

struct Trip {
    uint32_t host, dpu, server, device;
    double began;
};

class Simulation {
  public:
    Simulation(const Cluster& cluster, const Load& load)
        : cluster_(cluster), load_(load), random_(load.seed), seconds_(service_times(cluster)) {
        const planning::Hardware& h = cluster.hardware;
        channels_ = channels(h);
        add(host_cores_, cluster.hosts, h.host_cores);
        add(dpu_cores_, cluster.hosts * cluster.dpus_per_host, h.dpu_cores);
        add(dpu_ports_, cluster.hosts * cluster.dpus_per_host, 1);
        add(dpu_memories_, cluster.hosts * cluster.dpus_per_host, 1);
        add(links_, cluster.hosts * cluster.dpus_per_host, 1);
        add(server_cores_, cluster.servers, h.server_cores);
        add(server_ports_, cluster.servers, 1);
        add(media_, cluster.servers * h.server_devices, channels_);
        add(buses_, cluster.servers * h.server_devices, 1);
        place_objects();
    }

    Outcome run() {
        for (uint32_t host = 0; load_.requests_per_s == 0 && host < cluster_.hosts; ++host)
            for (uint32_t i = 0; i < load_.in_flight; ++i) begin(host, 0);
        if (load_.requests_per_s > 0) arrive(0);
        while (!events_.empty()) {
            const Event event = events_.top();
            events_.pop();
            handle(event);
        }
        return outcome();
    }

    static std::vector<double> service_times(const Cluster& cluster) {
        const planning::Hardware& h = cluster.hardware;
        const planning::Request& r = cluster.request;
        std::vector<double> seconds(steps);
        const double dpu_s = r.dpu_us / microseconds_per_s * 100 / h.dpu_core_percent;
        seconds[host_before] = seconds[host_after] = r.host_us / microseconds_per_s / 2;
        seconds[dpu_before] = seconds[dpu_after] = dpu_s / 2;
        seconds[server_before] = seconds[server_after] = r.server_us / microseconds_per_s / 2;
        seconds[medium] =
            r.device_operations * channels(h) / static_cast<double>(h.device_operations);
        seconds[bus] = r.device_bytes / static_cast<double>(h.device_bandwidth);
        seconds[server_port] = r.network_bytes / (h.server_network_gbits * bytes_per_gbit);
        seconds[dpu_port] = r.network_bytes / (h.dpu_network_gbits * bytes_per_gbit);
        seconds[dpu_memory] =
            r.bytes * h.dpu_memory_passes / static_cast<double>(h.dpu_memory_bandwidth);
        seconds[link] = r.bytes / (h.host_link_gbits * bytes_per_gbit);
        return seconds;
    }

  private:
    static uint32_t channels(const planning::Hardware& h) {
        return static_cast<uint32_t>(
            std::max(1.0, std::round(static_cast<double>(h.device_operations) * medium_s)));
    }
    static void add(std::vector<Station>& stations, uint32_t count, uint32_t places) {
        stations.assign(count, Station(places));
    }

    double uniform() { return static_cast<double>(random_.next() >> 11) * 0x1p-53; }
    double exponential(double mean) { return -std::log1p(-uniform()) * mean; }

    void place_objects() {
        double sum = 0;
        for (uint64_t i = 0; i < load_.objects; ++i) {
            sum += std::pow(static_cast<double>(i + 1), -load_.skew);
            popularity_.push_back(sum);
            homes_.push_back(any_device());
        }
    }
    uint32_t any_device() { return static_cast<uint32_t>(random_.below(media_.size())); }
    uint32_t device_of_request() {
        if (homes_.empty()) return any_device();
        const auto at = std::ranges::upper_bound(popularity_, uniform() * popularity_.back());
        return homes_[std::min<size_t>(static_cast<size_t>(at - popularity_.begin()),
                                       homes_.size() - 1)];
    }

    void push(double at, uint32_t request, Step step) {
        events_.push({at, made_++, request, step});
    }
    void begin(uint32_t host, double now) {
        if (trips_.size() == load_.requests) return;
        const uint32_t device = device_of_request();
        const uint32_t dpus = cluster_.dpus_per_host;
        const uint32_t dpu =
            host * dpus + (dpus == 1 ? 0 : static_cast<uint32_t>(random_.below(dpus)));
        trips_.push_back({host, dpu, device / cluster_.hardware.server_devices, device, now});
        push(now, static_cast<uint32_t>(trips_.size() - 1), host_before);
    }
    void arrive(double now) { begin(static_cast<uint32_t>(random_.below(cluster_.hosts)), now); }

    void handle(const Event& event) {
        const Trip trip = trips_[event.request];
        if (event.step == steps) {
            ends_.push_back({trip.began, event.at});
            if (load_.requests_per_s == 0) begin(trip.host, event.at);
            return;
        }
        // The next arrival is made when this one is handled, so that the heap stays small.
        if (event.step == host_before && load_.requests_per_s > 0)
            arrive(event.at + exponential(1 / load_.requests_per_s));
        const double mean = seconds_[event.step];
        const double seconds =
            load_.service == Service::fixed || mean == 0 ? mean : exponential(mean);
        push(station(trip, event.step).serve(event.at, seconds), event.request,
             static_cast<Step>(event.step + 1));
    }

    Station& station(const Trip& trip, Step step) {
        switch (step) {
            case host_before:
            case host_after: return host_cores_[trip.host];
            case dpu_before:
            case dpu_after: return dpu_cores_[trip.dpu];
            case server_before:
            case server_after: return server_cores_[trip.server];
            case medium: return media_[trip.device];
            case bus: return buses_[trip.device];
            case server_port: return server_ports_[trip.server];
            case dpu_port: return dpu_ports_[trip.dpu];
            case dpu_memory: return dpu_memories_[trip.dpu];
            case link: return links_[trip.dpu];
            case steps: break;
        }
        ROS2S_CHECK(false);
    }

    // Of the requests that ended in the middle of the run: without its start, in which queues are
    // short, and its end, in which arrivals stop.
    Outcome outcome() const {
        Outcome made;
        for (const double each : seconds_) made.unloaded_s += each;
        const size_t from = ends_.size() / 5, to = ends_.size() * 4 / 5;
        if (to <= from + 1) return made;
        made.requests_per_s =
            static_cast<double>(to - from) / (ends_[to].ended - ends_[from].ended);
        std::vector<double> times;
        for (size_t i = from; i < to; ++i) times.push_back(ends_[i].ended - ends_[i].began);
        std::ranges::sort(times);
        made.mean_s =
            std::accumulate(times.begin(), times.end(), 0.0) / static_cast<double>(times.size());
        made.p50_s = times[times.size() / 2];
        made.p99_s = times[times.size() * 99 / 100];
        return made;
    }

    struct Ended {
        double began, ended;
    };
    const Cluster& cluster_;
    const Load& load_;
    Random random_;
    std::vector<double> seconds_;  // by step
    uint32_t channels_ = 1;
    std::vector<Station> host_cores_, dpu_cores_, dpu_ports_, dpu_memories_, links_;
    std::vector<Station> server_cores_, server_ports_, media_, buses_;
    std::vector<double> popularity_;  // sums, by object
    std::vector<uint32_t> homes_;     // devices, by object
    std::vector<Trip> trips_;
    std::vector<Ended> ends_;
    std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
    uint64_t made_ = 0;
};

}  // namespace

double Cluster::requests_per_s_max() const {
    const uint64_t dpus = uint64_t{hosts} * dpus_per_host;
    return 1 / planning::resources_of(request, 1, hosts, dpus, servers, hardware).front().share();
}

Outcome simulate(const Cluster& cluster, const Load& load) {
    return Simulation(cluster, load).run();
}

}  // namespace ros2s::sim::cluster
