// A cluster of hosts, DPUs and servers as queues, simulated event by event, to check the closed
// formula of planning. It has only the cost of requests at each resource; no code of a store runs.
// Everything follows from the seed.
//
// The model: each resource of each machine is a queue, first come first served, with as many places
// as it has cores or channels. A read passes, in this order: a core of its host, a core of its DPU,
// a core of its server, a channel and the bus of a device, the core again, the server's network
// port, the DPU's port and memory, the DPU's core, the link to the host, the host's core. Half of a
// process's time passes on each visit of its cores. The network between ports has no limit.
//
// Invariants: a queue gets its requests in the order of their arrival, because events are handled
// in the order of time. A run ends when its requests have ended.
#pragma once
#include <cstdint>

#include "ros2s/planning/plan.h"

namespace ros2s::sim::cluster {

struct Cluster {
    uint32_t hosts = 1;
    uint32_t dpus_per_host = 1;  // a request takes one of them at random
    uint32_t servers = 1;
    planning::Hardware hardware;
    planning::Request request;

    // The maximum by the formula: the rate at which its first resource is full.
    [[nodiscard]] double requests_per_s_max() const;
};

// The lengths of service times: the costs, or drawn with the costs as their mean.
enum class Service : uint8_t { fixed, exponential };

struct Load {
    uint64_t seed = 1;
    uint64_t requests = 100'000;
    // Arrivals at random times (Poisson), of all hosts together; 0: each host keeps this many
    // requests in flight.
    double requests_per_s = 0;
    uint32_t in_flight = 64;
    // Requests read of this many objects, each on one device; 0: of a device at random.
    uint64_t objects = 0;
    // The popularity of object i is proportional to 1 / (i + 1)^skew.
    double skew = 0;
    Service service = Service::fixed;
};

struct Outcome {
    double requests_per_s = 0;
    // Times of a request, from its arrival to its end.
    double mean_s = 0, p50_s = 0, p99_s = 0;
    double unloaded_s = 0;  // without other requests, with fixed times of service
};

// The time of a read of a device's medium, which sets how many it does at once: as many as reach
// its operations per second. An assumption: of the order of a TLC device's; see docs/planning.md.
inline constexpr double medium_s = 80e-6;

[[nodiscard]] Outcome simulate(const Cluster& cluster, const Load& load);

}  // namespace ros2s::sim::cluster
