// Plan: the machines that GPUs need for their reads, from B = G·r·s (arXiv 2509.13997) and from
// what one request costs. Plain arithmetic: no I/O, any thread. docs/planning.md has the formulas
// and their limits.
//
// A resource's share is the work of all requests of a second, divided by the work that it can do in
// that second. A plan takes as many machines as keep each share within the hardware's utilisation.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "ros2s/base/result.h"
#include "ros2s/planning/costs.h"

namespace ros2s::planning {

// The reads of the GPUs.
struct Demand {
    uint64_t gpus = 0;          // G
    double rate = 0;            // r: samples per second of one GPU
    uint64_t sample_bytes = 0;  // s: bytes of a sample

    static constexpr uint64_t gpus_max = 10'000'000;
    static constexpr double rate_max = 1e9;
    static constexpr uint64_t sample_bytes_max = uint64_t{1} << 50;
    static constexpr double bytes_per_s_max = 1e18;
};
// From words of a command line. Errors: invalid, with a sentence: no number, negative, zero, too
// large, or a product above bytes_per_s_max.
[[nodiscard]] Result<Demand> parse_demand(std::string_view gpus, std::string_view rate,
                                          std::string_view sample, Report& report);

// The cost of one request at each resource on its way. Processor times are in µs of a core of the
// machine that measured them.
struct Request {
    double bytes = 0;  // payload
    double host_us = 0, dpu_us = 0, server_us = 0;
    double network_bytes = 0;
    double device_operations = 0, device_bytes = 0;
};
// A request of this size: the line through the costs of 4 KiB and 1 MiB. Errors: not_found, with a
// sentence: the file lacks a cost.
[[nodiscard]] Result<Request> request_of(double bytes, Backend backend, std::string_view provider,
                                         const Costs& costs, std::string_view where,
                                         Report& report);

// A resource of all machines together.
struct Resource {
    std::string_view name;  // "DPU cores"
    std::string_view of;    // the machine that has it: host, DPU or server
    double asked = 0;       // of one second's requests
    double available = 0;   // in a second, by all the machines of the plan
    std::string_view unit;  // of both
    [[nodiscard]] double share() const { return asked / available; }
};

// The cost of looking up each sample by name, if each is a file of its own.
struct LookUps {
    double dpu_cores = 0, server_cores = 0;
};

struct Plan {
    double bytes_per_s = 0;  // B
    double samples_per_s = 0, requests_per_s = 0;
    double requests_per_sample = 0;
    Request request;  // an average one
    uint64_t hosts = 0, dpus_per_host = 0, servers = 0, devices = 0;
    // Daemons with one core each, as an engine and a DPU daemon are (decision 0530).
    uint64_t engines = 0, dpu_daemons_per_dpu = 0;
    double server_cores = 0;          // in use, of all servers
    double usable_bytes = 0;          // that the devices hold with the copies of each
    std::vector<Resource> resources;  // the largest share first
    std::optional<LookUps> look_ups;  // empty: the file has no cost of a stat
    [[nodiscard]] uint64_t dpus() const { return hosts * dpus_per_host; }
};

// A DFS file is cut into chunks of this size, and a request reads of one chunk.
inline constexpr uint64_t chunk_bytes = uint64_t{1} << 20;
inline constexpr double microseconds_per_s = 1e6;
inline constexpr double bytes_per_gbit = 1e9 / 8;

// A plan for this demand. With rados, a server is a machine of OSDs, one on each device. A read is
// served by one OSD, so copies take capacity and a server each, but no other resource. Errors:
// not_found (a cost is missing), with a sentence.
[[nodiscard]] Result<Plan> plan(const Demand& demand, const Hardware& hardware, Backend backend,
                                std::string_view provider, const Costs& costs,
                                std::string_view where, Report& report);
// The shares of a cluster of given size at a given rate of requests, for a check by simulation.
[[nodiscard]] std::vector<Resource> resources_of(const Request& request, double requests_per_s,
                                                 uint64_t hosts, uint64_t dpus, uint64_t servers,
                                                 const Hardware& hardware);

}  // namespace ros2s::planning
