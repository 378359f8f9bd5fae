#include "ros2s/planning/plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "ros2s/base/text_parts.h"
#include "ros2s/config/units.h"

namespace ros2s::planning {
namespace {

constexpr double small_bytes = 4096, large_bytes = 1 << 20;

// A cost that two sizes have, as a line: never below 0, and not falling, because what falls is
// noise of the measurement.
struct Line {
    double fixed = 0, per_byte = 0;
    Line(double small, double large)
        : per_byte(std::max(0.0, (large - small) / (large_bytes - small_bytes))) {
        fixed = std::max(0.0, small - per_byte * small_bytes);
    }
    [[nodiscard]] double at(double bytes) const { return fixed + per_byte * bytes; }
};

uint64_t whole(double count) {
    return static_cast<uint64_t>(std::max(1.0, std::ceil(count - 1e-9)));
}

// Returns the number of machines that keep each of these shares within the utilisation. `resources`
// are those of one machine.
uint64_t machines(const std::vector<Resource>& resources, std::string_view of,
                  const Hardware& hardware) {
    double most = 1;
    for (const Resource& each : resources)
        if (each.of == of) most = std::max(most, each.share() * 100 / hardware.utilisation_percent);
    return whole(most);
}

struct CostPart {
    std::string_view name;
    std::optional<double> Cost::* cost;
    double Request::* request;
};
constexpr CostPart parts[] = {
    {"host_us", &Cost::host_us, &Request::host_us},
    {"dpu_us", &Cost::dpu_us, &Request::dpu_us},
    {"server_us", &Cost::server_us, &Request::server_us},
    {"network_bytes", &Cost::network_bytes, &Request::network_bytes},
    {"device_operations", &Cost::device_operations, &Request::device_operations},
    {"device_bytes", &Cost::device_bytes, &Request::device_bytes},
};

std::string remedy(Backend backend, const Costs& costs) {
    const auto known = costs.providers(backend);
    if (!known.empty()) return fmt::format("; there are costs of {}", fmt::join(known, ", "));
    switch (backend) {
        case Backend::engine: return "; write the file with ./dev bench costs";
        case Backend::rados:
            return "; measure it with ./dev bench costs --costs FILE where Ceph's packages are, "
                   "and name the file by --costs";
        case Backend::daos: break;
    }
    return "; nothing here measures DAOS, and no publication has its costs of one request: measure "
           "reads of 4 KiB and of 1 MiB on a DAOS of yours, add them with their source to a copy "
           "of the file (docs/planning.md), and name it by --costs";
}

}  // namespace

Result<Demand> parse_demand(std::string_view gpus, std::string_view rate, std::string_view sample,
                            Report& report) {
    Demand demand;
    const auto wrong = [&](std::string_view option, std::string_view text, std::string what) {
        return report.fail(Code::invalid, "{} takes {}; the given value is '{}'", option, what,
                           config::shown(text));
    };
    if (!parse_number(gpus, demand.gpus) || demand.gpus == 0 || demand.gpus > Demand::gpus_max)
        return wrong("--gpus", gpus, fmt::format("a number of GPUs, 1 to {}", Demand::gpus_max));
    if (!parse_number(rate, demand.rate) || !(demand.rate > 0 && demand.rate <= Demand::rate_max))
        return wrong("--rate", rate, "samples per second of one GPU, above 0 and at most 1e9");
    const auto bytes = config::parse_size(sample);
    if (!bytes || *bytes == 0 || *bytes > Demand::sample_bytes_max)
        return wrong("--sample", sample,
                     "the bytes of a sample, as in 150kB or 4MiB, at most 1024TiB");
    demand.sample_bytes = *bytes;
    const double product =
        static_cast<double>(demand.gpus) * demand.rate * static_cast<double>(demand.sample_bytes);
    if (product <= Demand::bytes_per_s_max) return demand;
    return report.fail(Code::invalid,
                       "GPUs, rate and sample make {:.3g} bytes per second, more than any storage "
                       "has; check the units",
                       product);
}

Result<Request> request_of(double bytes, Backend backend, std::string_view provider,
                           const Costs& costs, std::string_view where, Report& report) {
    const Cost* found[2] = {};
    constexpr std::string_view works[] = {"read-4096", "read-1048576"};
    for (size_t i = 0; i < std::size(works); ++i) {
        const auto at = costs.requests.find(Costs::key(backend, provider, works[i]));
        if (at == costs.requests.end()) {
            return report.fail(Code::not_found,
                               "{} has no cost of {} with {} behind the DPU over {}{}", where,
                               works[i], name(backend), provider, remedy(backend, costs));
        }
        found[i] = &at->second;
    }
    Request request{.bytes = bytes};
    for (const CostPart& each : parts) {
        const auto &small = found[0]->*each.cost, &large = found[1]->*each.cost;
        if (!small || !large) {
            return report.fail(Code::not_found,
                               "{} has no {} of {} with {} behind the DPU over {}; measure it, or "
                               "add it with its source",
                               where, each.name, small ? works[1] : works[0], name(backend),
                               provider);
        }
        request.*each.request = Line(*small, *large).at(bytes);
    }
    return request;
}

std::vector<Resource> resources_of(const Request& request, double requests_per_s, uint64_t hosts,
                                   uint64_t dpus, uint64_t servers, const Hardware& hardware) {
    const auto of_hosts = static_cast<double>(hosts), of_dpus = static_cast<double>(dpus),
               of_servers = static_cast<double>(servers);
    const auto devices = of_servers * hardware.server_devices;
    const double n = requests_per_s;
    std::vector<Resource> all{
        {"cores", "host", n * request.host_us / microseconds_per_s, of_hosts * hardware.host_cores,
         "cores"},
        {"link to its host", "DPU", n * request.bytes,
         of_dpus * hardware.host_link_gbits * bytes_per_gbit, "B/s"},
        {"cores", "DPU", n * request.dpu_us / microseconds_per_s * 100 / hardware.dpu_core_percent,
         of_dpus * hardware.dpu_cores, "cores"},
        {"memory bandwidth", "DPU", n * request.bytes * hardware.dpu_memory_passes,
         of_dpus * static_cast<double>(hardware.dpu_memory_bandwidth), "B/s"},
        {"network port", "DPU", n * request.network_bytes,
         of_dpus * hardware.dpu_network_gbits * bytes_per_gbit, "B/s"},
        {"network port", "server", n * request.network_bytes,
         of_servers * hardware.server_network_gbits * bytes_per_gbit, "B/s"},
        {"cores", "server", n * request.server_us / microseconds_per_s,
         of_servers * hardware.server_cores, "cores"},
        {"device operations", "server", n * request.device_operations,
         devices * static_cast<double>(hardware.device_operations), "/s"},
        {"device bandwidth", "server", n * request.device_bytes,
         devices * static_cast<double>(hardware.device_bandwidth), "B/s"},
    };
    std::ranges::sort(all, std::greater<>{},
                      [](const Resource& each) { return std::pair(each.share(), each.name); });
    return all;
}

Result<Plan> plan(const Demand& demand, const Hardware& hardware, Backend backend,
                  std::string_view provider, const Costs& costs, std::string_view where,
                  Report& report) {
    Plan made;
    const auto sample = static_cast<double>(demand.sample_bytes);
    made.samples_per_s = static_cast<double>(demand.gpus) * demand.rate;
    made.bytes_per_s = made.samples_per_s * sample;
    made.requests_per_sample = std::ceil(sample / static_cast<double>(chunk_bytes));
    made.requests_per_s = made.samples_per_s * made.requests_per_sample;
    ROS2S_TRY_ASSIGN(made.request, request_of(sample / made.requests_per_sample, backend, provider,
                                              costs, where, report));
    made.hosts = (demand.gpus + hardware.host_gpus - 1) / hardware.host_gpus;
    const auto one_of_each = resources_of(
        made.request, made.requests_per_s / static_cast<double>(made.hosts), 1, 1, 1, hardware);
    made.dpus_per_host = machines(one_of_each, "DPU", hardware);
    const uint32_t copies = backend == Backend::rados ? hardware.rados_copies : 1;
    made.servers = machines(resources_of(made.request, made.requests_per_s, 1, 1, 1, hardware),
                            "server", hardware);
    made.servers = std::max<uint64_t>(made.servers, copies);
    made.devices = made.servers * hardware.server_devices;
    made.usable_bytes =
        static_cast<double>(made.devices) * static_cast<double>(hardware.device_capacity) / copies;
    made.resources = resources_of(made.request, made.requests_per_s, made.hosts, made.dpus(),
                                  made.servers, hardware);
    const auto stat = costs.requests.find(Costs::key(backend, provider, "stat"));
    if (stat != costs.requests.end() && stat->second.dpu_us && stat->second.server_us) {
        made.look_ups = {
            .dpu_cores = made.samples_per_s * *stat->second.dpu_us / microseconds_per_s * 100 /
                         hardware.dpu_core_percent,
            .server_cores = made.samples_per_s * *stat->second.server_us / microseconds_per_s};
    }
    const double part = hardware.utilisation_percent / 100.0;
    for (const Resource& each : made.resources) {
        if (each.name != "cores") continue;
        if (each.of == "server") {
            made.server_cores = each.asked;
            made.engines = whole(each.asked / part);
        }
        if (each.of == "DPU")
            made.dpu_daemons_per_dpu = whole(each.asked / part / static_cast<double>(made.dpus()));
    }
    return made;
}

}  // namespace ros2s::planning
