#include "ros2s/planning/costs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ranges>

#include "ros2s/base/text_parts.h"
#include "ros2s/config/config.h"
#include "ros2s/config/units.h"

namespace ros2s::planning {
namespace {

constexpr double most = 1e15;

struct Number {
    std::string_view name;
    std::optional<double> Cost::* member;
};
constexpr Number numbers[] = {
    {"host_us", &Cost::host_us},
    {"dpu_us", &Cost::dpu_us},
    {"server_us", &Cost::server_us},
    {"network_bytes", &Cost::network_bytes},
    {"device_operations", &Cost::device_operations},
    {"device_bytes", &Cost::device_bytes},
};

std::optional<double> number_in(std::string_view text) {
    double value = 0;
    if (!parse_number(text, value) || !std::isfinite(value) || value < 0 || value > most)
        return std::nullopt;
    return value;
}

// The number with which a text begins, as in "2 cores of …".
std::optional<double> first_number(std::string_view text) {
    return number_in(text.substr(0, text.find(' ')));
}

// Of "offload/engine/ucx+tcp/read-4096".
bool well_formed(std::string_view key) {
    std::vector<std::string_view> parts;
    for (const auto part : std::views::split(key, '/')) parts.emplace_back(part);
    return parts.size() == 4 && (parts[0] == "direct" || parts[0] == "offload") &&
           backend_named(parts[1]) && !parts[2].empty() && !parts[3].empty();
}

// Reads the numbers of a file; the first that is none ends it.
class Reader {
  public:
    Reader(std::string_view where, Report& report) : where_(where), report_(report) {}

    Result<double> number(std::string_view key, std::string_view text) const {
        if (const auto value = number_in(text)) return *value;
        return report_.fail(Code::invalid,
                            "{}: {}: \"{}\" is not a cost; write a number from 0 to 1e15, or "
                            "remove the key if it was not measured",
                            where_, config::shown(key), config::shown(text));
    }
    Result<Cost> cost(const std::string& key, const config::Entries& entries) const {
        if (!well_formed(key)) {
            return report_.fail(
                Code::invalid,
                "{}: requests: \"{}\" names no request; write MODE/BACKEND/PROVIDER/WORK, as in "
                "offload/engine/ucx+tcp/read-4096",
                where_, config::shown(key));
        }
        Cost cost;
        for (const auto& [entry, text] : entries) {
            if (entry == "source") {
                cost.source = text;
            } else {
                ROS2S_TRY_ASSIGN(cost.*std::ranges::find(numbers, entry, &Number::name)->member,
                                 number(key + "." + entry, text));
            }
        }
        if (!cost.source.empty()) return cost;
        return report_.fail(Code::invalid,
                            "{}: {}: it has no source; write \"source\": \"measured\", or where "
                            "the numbers are from",
                            where_, config::shown(key));
    }

  private:
    std::string_view where_;
    Report& report_;
};

}  // namespace

std::string_view name(Backend backend) {
    switch (backend) {
        case Backend::engine: return "engine";
        case Backend::rados: return "rados";
        case Backend::daos: break;
    }
    return "daos";
}

std::optional<Backend> backend_named(std::string_view word) {
    for (const Backend each : {Backend::engine, Backend::rados, Backend::daos})
        if (name(each) == word) return each;
    return std::nullopt;
}

std::string_view default_provider(Backend backend) {
    return backend == Backend::engine ? "ucx+tcp" : "tcp";
}

std::string Costs::key(Backend backend, std::string_view provider, std::string_view work) {
    return fmt::format("offload/{}/{}/{}", name(backend), provider, work);
}

std::vector<std::string> Costs::providers(Backend backend) const {
    std::vector<std::string> found;
    const std::string prefix = fmt::format("offload/{}/", name(backend));
    constexpr std::string_view work = "/read-4096";
    for (const auto& [key, cost] : requests) {
        if (!key.starts_with(prefix) || !key.ends_with(work)) continue;
        found.push_back(key.substr(prefix.size(), key.size() - prefix.size() - work.size()));
    }
    return found;
}

bool Costs::measured_under_load() const {
    const auto before = first_number(load), cores = first_number(machine);
    return before && cores && *before > *cores;
}

Result<Costs> parse_costs(std::string_view json, std::string_view where, Report& report) {
    uint32_t found_version = Costs::version;
    config::Entries measured, memory;
    std::map<std::string, config::Entries> requests, spreads;
    config::Records records{.keys = {{"source", "Where the numbers are from."}},
                            .into = &requests,
                            .example = R"({"source": "measured", "server_us": 7.5})"};
    for (const Number& each : numbers) records.keys.push_back({each.name, "A cost."});
    config::Records edges = records;
    edges.into = &spreads;
    // JSON is YAML as far as this file goes, so the parser of settings reads it and names lines.
    ROS2S_TRY(config::parse(
        json, where,
        {{"",
          "",
          {config::count("version", found_version, Costs::version, Costs::version,
                         "`./dev bench costs` of the same build writes a file that fits.")
               .required()}},
         {"measured", "write one text per key", {}, &measured},
         {"requests", "write one number per key", {}, nullptr, {records}},
         {"spreads", "write one text per key", {}, nullptr, {edges}},
         {"memory", "write one number per key", {}, &memory}},
        report));
    Costs costs{.machine = measured["machine"],
                .commit = measured["commit"],
                .date = measured["date"],
                .load = measured["load"]};
    const Reader reader(where, report);
    for (const auto& [key, entries] : requests) {
        ROS2S_TRY_ASSIGN(costs.requests[key], reader.cost(key, entries));
    }
    for (const auto& [key, text] : memory) {
        ROS2S_TRY_ASSIGN(costs.memory[key], reader.number("memory." + key, text));
    }
    return costs;
}

namespace {

constexpr uint64_t megabyte = 1'000'000;
constexpr uint64_t terabyte = megabyte * 1'000'000;

}  // namespace

config::Table describe(Hardware& hardware) {
    Hardware& h = hardware;
    return {
        {"host",
         "A machine with GPUs.",
         {config::count("gpus", h.host_gpus, 1, 1024, "GPUs of a host."),
          config::count("cores", h.host_cores, 1, 4096, "Processor cores of a host."),
          config::count("link_gbits", h.host_link_gbits, 1, 100'000,
                        "Speed of the link between a host and each of its DPUs, in Gbit/s.")}},
        {"dpu",
         "A DPU.",
         {config::count("cores", h.dpu_cores, 1, 4096, "Processor cores of a DPU."),
          config::count("core_percent", h.dpu_core_percent, 1, 1000,
                        "Speed of such a core, in percent of a core of the machine that measured "
                        "the costs."),
          config::count("network_gbits", h.dpu_network_gbits, 1, 100'000,
                        "Speed of its network port, in Gbit/s."),
          config::size("memory_bandwidth", h.dpu_memory_bandwidth, megabyte, 100 * terabyte,
                       "Bytes per second that its memory moves."),
          config::count("memory_passes", h.dpu_memory_passes, 1, 64,
                        "How often a byte of payload crosses its memory.")}},
        {"server",
         "A storage server.",
         {config::count("cores", h.server_cores, 1, 4096, "Processor cores of a server."),
          config::count("network_gbits", h.server_network_gbits, 1, 100'000,
                        "Speed of its network ports together, in Gbit/s."),
          config::count("devices", h.server_devices, 1, 1024, "NVMe devices of a server."),
          config::size("device_bandwidth", h.device_bandwidth, megabyte, 100 * terabyte,
                       "Bytes per second that a device reads."),
          config::count("device_operations", h.device_operations, 1, 1'000'000'000,
                        "4 KiB reads per second of a device."),
          config::size("device_capacity", h.device_capacity, megabyte, 1'000'000 * terabyte,
                       "Bytes of a device.")}},
        {"rados",
         "A Ceph cluster in place of engines.",
         {config::count("copies", h.rados_copies, 1, 16,
                        "Copies of each object, on as many servers: the size of the RADOS pools."),
          config::size("osd_memory", h.rados_osd_memory, megabyte, terabyte,
                       "Memory of an OSD: osd_memory_target.")}},
        {"plan",
         "How the plan uses the machines.",
         {config::count("utilisation_percent", h.utilisation_percent, 1, 100,
                        "How far a resource is filled. Above 80, requests wait long for their turn "
                        "and a plan is not trustworthy.")}},
    };
}

Result<Hardware> parse_hardware(std::string_view yaml, std::string_view where, Report& report) {
    Hardware hardware;
    ROS2S_TRY(config::parse(yaml, where, describe(hardware), report));
    return hardware;
}

}  // namespace ros2s::planning
