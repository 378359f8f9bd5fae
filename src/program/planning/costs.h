// Costs: what one request costs each process and each link, read from a file that `./dev bench
// costs` writes (docs/formats/costs.md). A cost that was not measured is absent, and what needs it
// is refused.
//
// Invariants: every number is finite and not negative. A read of 4 KiB and one of 1 MiB give a
// line: a fixed cost per request and a cost per byte.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ros2s/base/result.h"
#include "ros2s/config/config.h"

namespace ros2s::planning {

// The storage behind the DPU.
enum class Backend : uint8_t { engine, rados, daos };
[[nodiscard]] std::string_view name(Backend backend);
[[nodiscard]] std::optional<Backend> backend_named(std::string_view word);
// How DPUs reach it, if the user names no provider.
[[nodiscard]] std::string_view default_provider(Backend backend);

// The costs of one request. Fields that the file omits are empty.
struct Cost {
    std::string source;                       // "measured", or where the numbers are from
    std::optional<double> host_us;            // processor time of the host, by its library
    std::optional<double> dpu_us;             // of the DPU daemon
    std::optional<double> server_us;          // of the engine, or of what stands in its place
    std::optional<double> network_bytes;      // between DPU and server, both directions
    std::optional<double> device_operations;  // of the devices
    std::optional<double> device_bytes;
};

struct Costs {
    static constexpr uint32_t version = 1;
    std::string machine, commit, date, load;
    std::map<std::string, Cost, std::less<>> requests;  // "offload/engine/ucx+tcp/read-4096"
    std::map<std::string, double, std::less<>> memory;  // "index_bytes_per_gib_in_order"

    // Of a request that a host makes through its DPU.
    [[nodiscard]] static std::string key(Backend backend, std::string_view provider,
                                         std::string_view work);
    // The providers by which DPUs reach a back end in this file.
    [[nodiscard]] std::vector<std::string> providers(Backend backend) const;
    // Returns true if other programs used the machine when it was measured: the load before, with
    // which `load` begins, was above the number of cores, with which `machine` begins. The load
    // afterwards is no sign, because the measurement itself is in it.
    [[nodiscard]] bool measured_under_load() const;
};

// Errors: invalid, too_large; the report has a sentence with line and key for each problem.
[[nodiscard]] Result<Costs> parse_costs(std::string_view json, std::string_view where,
                                        Report& report);

// Hardware: the machines that a plan counts, with the figures of real ones as defaults. A YAML file
// changes them (config tables). docs/planning.md has the source of each default.
//
// Invariants: after parse_hardware() every value is positive and within its range, so that the
// arithmetic of a plan divides by no zero.
struct Hardware {
    // A host: the machine of the GPUs.
    uint32_t host_gpus = 8;
    uint32_t host_cores = 112;
    uint32_t host_link_gbits = 504;  // to each of its DPUs
    // A DPU.
    uint32_t dpu_cores = 16;
    uint32_t dpu_core_percent = 100;  // of a core of the machine that measured the costs
    uint32_t dpu_network_gbits = 400;
    uint64_t dpu_memory_bandwidth = 89'600'000'000;
    uint32_t dpu_memory_passes = 4;
    // A storage server.
    uint32_t server_cores = 64;
    uint32_t server_network_gbits = 400;
    uint32_t server_devices = 16;
    uint64_t device_bandwidth = 6'500'000'000;
    uint64_t device_operations = 900'000;
    uint64_t device_capacity = 15'360'000'000'000;
    // A Ceph cluster in place of engines.
    uint32_t rados_copies = 3;
    uint64_t rados_osd_memory = uint64_t{4} << 30;
    // The part of each resource that the plan uses.
    uint32_t utilisation_percent = 80;
};

[[nodiscard]] config::Table describe(Hardware& hardware);
// `where` names the file in messages, which have line and key. Errors: invalid, too_large.
[[nodiscard]] Result<Hardware> parse_hardware(std::string_view yaml, std::string_view where,
                                              Report& report);

}  // namespace ros2s::planning
